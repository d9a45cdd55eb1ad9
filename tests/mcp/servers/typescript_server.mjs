// A server on version 2 of the TypeScript SDK, both eras on stdio. usage: node typescript_server.mjs
import { McpServer, ResourceTemplate, fromJsonSchema } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const text = (words) => ({ content: [{ type: 'text', text: words }] });
const numbers = fromJsonSchema({
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b']
});

serveStdio(() => {
    const server = new McpServer({ name: 'typescript', version: '1.0.0' });
    server.registerTool('add', { description: 'Add two numbers.', inputSchema: numbers }, ({ a, b }) => text(String(a + b)));
    server.registerTool('fail', { description: 'Fail.' }, () => { throw new Error('kaboom'); });
    server.registerResource('greeting', 'data://greeting', {}, (uri) => ({ contents: [{ uri: uri.href, text: 'hello' }] }));
    server.registerResource('item', new ResourceTemplate('data://item/{number}', { list: undefined }), {}, (uri, { number }) => ({
        contents: [{ uri: uri.href, text: `item ${number}` }]
    }));
    server.registerPrompt('hello', { description: 'A prompt.' }, () => ({
        messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }]
    }));
    return server;
});
