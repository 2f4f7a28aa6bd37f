// An MCP client of another library: node ask.mjs accept|decline|none TOOL ARGUMENTS (COMMAND ... | URL TOKEN)
// Its user answers each question so; with none it cannot ask. Prints what the call answered, and how often it was asked.
// On a busy machine a request may take longer than the library's 60 seconds.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [action, tool, given, command, ...args] = process.argv.slice(2);
const capabilities = action === 'none' ? {} : { elicitation: {} };
const client = new Client({ name: 'ask', version: '1' }, { capabilities });
const patient = { timeout: 250_000 };
let asked = 0;
if (action !== 'none') {
  client.setRequestHandler(ElicitRequestSchema, () => {
    asked += 1;
    return { action, content: {} };
  });
}
const requestInit = { headers: { Authorization: `Bearer ${args[0]}` } };
await client.connect(
  command.startsWith('http')
    ? new StreamableHTTPClientTransport(new URL(command), { requestInit })
    : new StdioClientTransport({ command, args, stderr: 'ignore' }),
  patient,
);
const call = { name: 'call_tool', arguments: { tool, arguments: JSON.parse(given) } };
const result = await client.callTool(call, undefined, patient);
console.log(JSON.stringify({ asked, text: result.content[0].text }));
await client.close();
