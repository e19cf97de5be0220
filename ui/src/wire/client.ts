// One question to the agent and its answer. Decided here: the header that every write carries, the token, how an
// answer that is not one becomes a problem, and how far the agent's clock is from ours.
// Read `watch` next: what the agent says without being asked.
import * as decode from './decode';
import { EventReader, type SentEvent } from './sse';
import type { Asked, Ended, Finished, Plan, Problem } from './types';

const BASE = './api/v1';
const TOKEN = 'kilter.token';

/** Why the agent did not do what it was asked. */
export class Refusal extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
    this.name = 'Refusal';
  }
}

let ahead = 0;

/** The agent's time in milliseconds: deadlines are on its clock, not on ours. */
export const agentNow = (): number => Date.now() + ahead;

/** Takes the agent's clock from the header of an answer; it has no more than whole seconds. */
export function noteClock(header: string | null, now = Date.now()): void {
  const told = header ? Date.parse(header) : Number.NaN;
  if (Number.isNaN(told)) return;
  const off = told + 500 - now;
  ahead = Math.abs(off) < 2000 ? 0 : off;
}

export const token = {
  get: (): string => sessionStorage.getItem(TOKEN) ?? '',
  set: (value: string): void => {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  },
};

/**
 * Makes a token known: one that is sent with every question, or that of an address which an agent printed, which is good
 * once and begins a session.
 */
export async function enter(text: string): Promise<void> {
  const once = text.match(/[?&]token=(\w+)/)?.[1];
  token.set(once ? '' : text);
  // The session comes as a cookie with the answer, which leads to where we are.
  if (once) await fetch(`./?token=${once}`, { redirect: 'manual', cache: 'no-store' }).catch(() => undefined);
}

export const headers = (more: Record<string, string> = {}): Record<string, string> => {
  const known = token.get();
  return { ...(known ? { authorization: `Bearer ${known}` } : {}), ...more };
};

export const address = (path: string, query: Record<string, string | number | boolean | undefined> = {}): string => {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== '' && value !== false);
  const search = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return `${BASE}${path}${search ? `?${search}` : ''}`;
};

/** A key as the rest of a path: its slashes stay. */
export const keyPath = (key: string): string => key.split('/').map(encodeURIComponent).join('/');

const unreachable = (error: unknown): Problem =>
  decode.problem({
    title: 'the agent cannot be reached',
    message: 'could not reach the agent',
    causes: [error instanceof Error ? error.message : String(error)],
    hint: 'see whether `kilter agent` runs; what is shown may be out of date',
  });

/** What an answer that is not one says. */
export async function refusalOf(answer: Response): Promise<Refusal> {
  const body: unknown = await answer.json().catch(() => ({}));
  const problem = decode.problem(body, answer.status);
  if (!problem.message) problem.message = `the agent answered ${answer.status} ${answer.statusText}`.trim();
  return new Refusal(problem);
}

let onUnauthorised: () => void = () => {};

/** Says what happens when the agent wants to know who asks. */
export const whenUnauthorised = (then: () => void): void => {
  onUnauthorised = then;
};

async function ask(url: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Refusal(unreachable(error));
  }
  noteClock(answer.headers.get('date'));
  if (answer.status === 401) onUnauthorised();
  if (!answer.ok) throw await refusalOf(answer);
  return answer;
}

/** Reads. */
export async function get<T>(
  path: string,
  read: (json: unknown) => T,
  query: Record<string, string | number | boolean | undefined> = {},
  signal?: AbortSignal,
): Promise<T> {
  const answer = await ask(address(path, query), { headers: headers({ accept: 'application/json' }), ...(signal ? { signal } : {}) });
  return read(await answer.json());
}

const write = (method: string, body: unknown, accept: string): RequestInit => ({
  method,
  headers: headers({ 'content-type': 'application/json', 'x-kilter': '1', accept }),
  body: JSON.stringify(body),
});

/** Changes something. */
export async function send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body: unknown, read: (json: unknown) => T): Promise<T> {
  const answer = await ask(address(path), write(method, body, 'application/json'));
  const text = await answer.text();
  return read(text ? (JSON.parse(text) as unknown) : {});
}

export const planOf = (asked: Asked): Promise<Plan> => send('POST', '/plan', asked, decode.plan);

export interface Wishes {
  expected_hash?: string;
  confirm?: { within: string };
  description?: string;
}

export interface Progress {
  planned: (plan: Plan) => void;
  finished: (finished: Finished) => void;
}

/** Applies, and tells how far it is; the answer says how it ended. */
export async function apply(asked: Asked, wishes: Wishes, progress: Progress): Promise<Ended> {
  const answer = await ask(address('/apply'), write('POST', { ...asked, ...wishes }, 'text/event-stream'));
  if (!answer.headers.get('content-type')?.startsWith('text/event-stream')) return decode.ended(await answer.json());
  for await (const event of sentEvents(answer)) {
    const json = JSON.parse(event.text) as unknown;
    if (event.name === 'planned') progress.planned(decode.plan(json));
    else if (event.name === 'finished') progress.finished(decode.finished(json));
    else if (event.name === 'ended') return decode.ended(json);
    else if (event.name === 'problem') throw new Refusal(decode.problem(json));
  }
  throw new Refusal(unreachable('the connection ended before the transaction did'));
}

/** The server-sent events of an answer, as they come. */
export async function* sentEvents(answer: Response, reader = new EventReader(), heard: () => void = () => {}): AsyncGenerator<SentEvent> {
  if (!answer.body) return;
  const bytes = answer.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await bytes.read();
      if (done) return;
      heard();
      yield* reader.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    await bytes.cancel().catch(() => {});
  }
}
