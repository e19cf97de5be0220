// The agent itself as the tests start it: in a sandbox of its own, with the lab, ended with the tests.
import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PATIENCE } from './patience';
import type { Served } from './stand-in';

/** A session of the page, as the browser keeps it. */
export interface Session { name: string; value: string; url: string }

export interface Kept extends Served {
  session: Session;
  /** The words that run a program inside of the sandbox. */
  inside: string;
}

/** Where an agent says that its page is, with a token that is good once. */
export interface Announced { page: URL; inside: string; stop: () => void }

const LAB = new URL('../../examples/lab', import.meta.url).pathname;

/** Starts an agent with the declarations of a folder. */
export async function announced(program: string, folder = LAB): Promise<Announced> {
  const child = spawn(program, ['up', folder, '--sandbox'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const said = await new Promise<{ inside: string; page: URL }>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('the agent does not say where its page is')), PATIENCE);
    let inside = '';
    let page: URL | undefined;
    child.once('exit', (code) => reject(new Error(`the agent ended with ${code}`)));
    // Whatever it says later is read too, so that it never waits for a reader.
    createInterface({ input: child.stdout }).on('line', (line) => {
      inside = line.match(/^ {2}(nsenter .*) ip netns$/)?.[1] ?? inside;
      if (/^ {2}http:\/\//.test(line)) page = new URL(line.trim());
      if (page && line.startsWith('healing until stopped')) {
        clearTimeout(late);
        resolve({ inside, page });
      }
    });
  });
  child.removeAllListeners('exit');
  return { ...said, stop: () => { child.kill('SIGINT'); } };
}

/** Starts an agent and exchanges the token of its address for a session. */
export async function agent(program: string, folder = LAB): Promise<Kept> {
  const said = await announced(program, folder);
  const entered = await fetch(said.page, { redirect: 'manual' });
  const [name = '', value = ''] = (entered.headers.get('set-cookie')?.split(';')[0] ?? '').split('=');
  if (entered.status !== 303 || !value) throw new Error(`the token begins no session: ${entered.status}`);
  const url = said.page.origin;
  return { url, inside: said.inside, session: { name, value, url }, stop: said.stop };
}

/** Asks for something as another program would. */
export async function post(to: Served & Partial<Kept>, path: string, body: object): Promise<void> {
  const cookie = to.session ? `${to.session.name}=${to.session.value}` : '';
  const answer = await fetch(`${to.url}/api/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-kilter': '1', cookie },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path} was refused: ${await answer.text()}`);
}

/** Declares something as another program would. */
export const declare = (to: Served & Partial<Kept>, text: string, source: string, more: object = {}): Promise<void> =>
  post(to, 'apply', { documents: [{ name: `${source}.yaml`, text }], source, ...more });

/** A folder that declares at least so many items: a namespace and routes in it. */
export function many(count: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'kilter-many-'));
  const route = (index: number): string =>
    `kind: route\nnetns: many\ntype: blackhole\ndestination: 10.${index >> 16}.${(index >> 8) & 255}.${index & 255}/32\n`;
  const texts = ['kind: netns\nname: many\n', ...Array.from({ length: count }, (_, index) => route(index))];
  writeFileSync(join(folder, 'many.yaml'), texts.join('---\n'));
  return folder;
}
