#!/usr/bin/env node
// Starts the program of this platform, with the same arguments, streams, signals and exit code.
'use strict';

const { spawn } = require('node:child_process');
const { existsSync } = require('node:fs');
const { constants } = require('node:os');
const { join } = require('node:path');

const platform = `${process.platform}-${process.arch}`;

function find() {
  try {
    return require.resolve(`@toolcrib/${platform}/toolcrib`);
  } catch {
    const own = join(__dirname, '..', 'platforms', platform, 'toolcrib');
    return existsSync(own) ? own : undefined;
  }
}

const program = find();
if (program === undefined) {
  console.error(`error: this package has no toolcrib for ${platform}`);
  console.error('hint: build it from source, see https://github.com/toolcrib/toolcrib');
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// A terminal sends these to the program, too, for which a second one means to abort its calls.
const fromTerminal = ['SIGINT', 'SIGQUIT'];
for (const signal of ['SIGTERM', 'SIGHUP', ...fromTerminal]) {
  process.on(signal, () => {
    if (!(process.stdin.isTTY && fromTerminal.includes(signal))) child.kill(signal);
  });
}
child.on('error', (error) => {
  console.error(`error: ${program} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  process.exit(code ?? 128 + constants.signals[signal]);
});
