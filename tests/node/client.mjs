// A client that knows nothing of toolroute but the names of its workflows: node client.mjs ADDRESS TASK_QUEUE TASK
import { Client, Connection } from '@temporalio/client';

const [address, taskQueue, task] = process.argv.slice(2);
const connection = await Connection.connect({ address });
const client = new Client({ connection });

const decision = await client.workflow.execute('toolroute.route', {
  taskQueue,
  workflowId: `route-${crypto.randomUUID()}`,
  args: [{ query: task, tenant: 'org:1' }],
});

const run = await client.workflow.start('toolroute.run', {
  taskQueue,
  workflowId: `run-${crypto.randomUUID()}`,
  args: [{ task, tenant: 'org:1' }],
});
const result = await run.result();
const progress = await run.query('toolroute.progress');
console.log(JSON.stringify({ decision, result, progress }));
await connection.close();
