// The stand-in for the agent as the tests start it: on a port of its own, ended with the tests.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export interface Served { url: string; stop: () => void }

/** Starts the stand-in and waits until it serves. */
export function standIn(...options: string[]): Promise<Served> {
  const script = new URL('../dev/server.mjs', import.meta.url).pathname;
  const child = spawn(process.execPath, [script, '--port', '0', ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the stand-in ended with ${code}`)));
    // It says where it is once it listens.
    createInterface({ input: child.stdout }).once('line', (line) => {
      child.removeAllListeners('exit');
      resolve({ url: new URL(line).origin, stop: () => { child.kill(); } });
    });
  });
}
