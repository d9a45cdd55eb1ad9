"""The client that the official MCP conformance harness drives: nothing but the public API.

The harness starts it with the URL of a mock server as the last argument and sets
``MCP_CONFORMANCE_SCENARIO``, ``MCP_CONFORMANCE_PROTOCOL_VERSION`` and, for some scenarios,
``MCP_CONFORMANCE_CONTEXT`` (JSON). It ends with 0 when the scenario went as the specification
wants it: for some of them that is to refuse the authorization.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from yiemagent.errors import McpAuthorizationError
from yiemagent.mcp import McpHttp, McpTool
from yiemagent.mcp.oauth import (
    AuthorizationCode,
    ClientCredentials,
    EnterpriseManaged,
    OAuth,
    OAuthClient,
    WorkloadIdentity,
)

METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""Of the harness: the client id of a client with a metadata document."""

MUST_BE_REFUSED = {
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "auth/scope-retry-limit",
}
"""Here the right client gives up with an authorization error."""

MUST_ONLY_LIST = {"json-schema-ref-no-deref"}
"""Here the mock server only lists its tools."""


class AutomaticUser:
    """Stands for a person who agrees to everything: the mock login page only redirects."""

    redirect_uri = "http://127.0.0.1:8765/callback"

    def listen(self, registered: Sequence[str]) -> AutomaticUser:
        return self

    def obtain(self, authorization_url: str, call: object) -> str:
        parts = urlsplit(authorization_url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}")
            return connection.getresponse().headers["Location"]
        finally:
            connection.close()

    def close(self) -> None:
        pass


def authorization(scenario: str, context: Mapping[str, Any]) -> OAuth | None:
    """What the scenario wants a user to have configured."""
    if not scenario.startswith("auth/"):
        return None
    if scenario == "auth/pre-registration":
        known = OAuthClient(
            client_id=context["client_id"],
            client_secret=context["client_secret"],
            issuer=context.get("issuer"),
        )
        return OAuth(AuthorizationCode(AutomaticUser(), client=known))
    if scenario == "auth/client-credentials-basic":
        return OAuth(ClientCredentials(context["client_id"], context["client_secret"]))
    if scenario == "auth/client-credentials-jwt":
        return OAuth(
            ClientCredentials(
                context["client_id"],
                private_key=context["private_key_pem"],
                algorithm=context.get("signing_algorithm"),
            )
        )
    if scenario == "auth/enterprise-managed-authorization":
        return OAuth(
            EnterpriseManaged(
                context["client_id"],
                context["client_secret"],
                id_token=context["idp_id_token"],
                idp_issuer=context["idp_issuer"],
                idp_client_id=context["idp_client_id"],
            )
        )
    if scenario == "auth/wif-jwt-bearer":
        return OAuth(WorkloadIdentity(context["client_id"], context["valid_jwt"]))
    dpop = scenario.startswith("auth/dpop")
    return OAuth(AuthorizationCode(AutomaticUser(), client_metadata_url=METADATA_URL), dpop=dpop)


def example(schema: Mapping[str, Any]) -> Any:
    """A value that fits a simple schema."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: example(properties.get(name, {})) for name in schema.get("required", ())}
    simple: dict[str, Any] = {"integer": 3, "number": 5, "boolean": True, "array": []}
    return simple.get(str(schema.get("type")), "example")


def arguments_for(tool: McpTool, tools: Mapping[str, McpTool]) -> dict[str, Any]:
    """Arguments for a call of *tool* when the harness names none."""
    if tool.name == "json_schema_echo":
        return {"schema": tools["json_schema_2020_12_tool"].raw["inputSchema"]}
    arguments = example({"type": "object", **tool.input_schema})
    return arguments if isinstance(arguments, dict) else {}


def use_everything(client: McpHttp, context: Mapping[str, Any], *, only_list: bool) -> None:
    """Use what the server offers, as an application would."""
    tools = {tool.name: tool for tool in client.list_tools(refresh=True)}
    if only_list:
        return
    wanted = context.get("toolCalls")
    if wanted:
        for one in wanted:
            client.call_tool(one["name"], one["arguments"])
    else:
        for tool in tools.values():
            client.call_tool(tool.name, arguments_for(tool, tools))
    for resource in client.list_resources():
        client.read_resource(resource.uri)
    for prompt in client.list_prompts():
        needed = [one["name"] for one in prompt.arguments if one.get("required")]
        client.get_prompt(prompt.name, dict.fromkeys(needed, "example"))


def main(url: str) -> int:
    """Run one scenario."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    try:
        with McpHttp(
            url,
            auth=authorization(scenario, context),
            on_elicitation=lambda request: True,
            roots=["/tmp"],
        ) as client:
            use_everything(client, context, only_list=scenario in MUST_ONLY_LIST)
    except McpAuthorizationError as exc:
        print(f"refused: {exc}")
        return 0 if scenario in MUST_BE_REFUSED else 1
    return 1 if scenario in MUST_BE_REFUSED else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
