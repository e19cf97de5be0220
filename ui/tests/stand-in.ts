// The stand-in for the agent as the tests start it: on a port of its own, ended with the tests.
import { spawn, type ChildProcess } from 'node:child_process';

export interface Served { url: string; stop: () => void }

/** Starts the stand-in and waits until it serves. */
export function standIn(...options: string[]): Promise<Served> {
  const port = 20_000 + Math.floor(Math.random() * 20_000);
  const script = new URL('../dev/server.mjs', import.meta.url).pathname;
  const child: ChildProcess = spawn(process.execPath, [script, '--port', String(port), ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the stand-in ended with ${code}`)));
    child.stdout?.once('data', () => {
      child.removeAllListeners('exit');
      resolve({ url: `http://127.0.0.1:${port}`, stop: () => { child.kill(); } });
    });
  });
}
