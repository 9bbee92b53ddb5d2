// server-everything over streamable HTTP, on a free port of this machine alone: by itself it would
// listen everywhere, on a port that it is told.
//
//   node everything.mjs FOLDER
//
// Prints `listening on http://ADDR` once it listens; FOLDER has the packages in node_modules. It ends
// when its standard input does, so that it never outlives the test that started it.
import http from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const listen = http.Server.prototype.listen;
http.Server.prototype.listen = function () {
  return listen.call(this, 0, '127.0.0.1', () => {
    process.stdout.write(`listening on http://127.0.0.1:${this.address().port}\n`);
  });
};
// It tells every request, and nobody reads that.
console.log = () => {};
process.stdin.on('end', () => process.exit(0)).resume();

const server = '@modelcontextprotocol/server-everything/dist/transports/streamableHttp.js';
await import(pathToFileURL(join(process.argv[2], 'node_modules', server)).href);
