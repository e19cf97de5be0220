import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { SentEvent } from './sse';
import { SILENCE, waitAfter, Watch, type Connection, type Surroundings } from './watch';

/** An answer that ends after its text, or stays open until it is cut, as a real one does. */
const body = (text: string, cut?: AbortSignal | null): Response =>
  new Response(
    new ReadableStream({
      start(stream) {
        stream.enqueue(new TextEncoder().encode(text));
        if (!cut) stream.close();
        cut?.addEventListener('abort', () => stream.error(new DOMException('cut', 'AbortError')));
      },
    }),
    { headers: { 'content-type': 'text/event-stream' } },
  );

interface Script { answers: ((init: RequestInit) => Response)[]; asked: { url: string; headers: Record<string, string> }[]; waits: number[] }

/** A world in which the connections go as scripted, and no time passes. */
function played(answers: Script['answers']): { watch: Watch; heard: SentEvent[]; told: Connection[]; script: Script; silent: (() => void)[]; done: Promise<void> } {
  const script: Script = { answers, asked: [], waits: [] };
  const heard: SentEvent[] = [];
  const told: Connection[] = [];
  const silent: (() => void)[] = [];
  const around: Surroundings = {
    fetch: (async (url: string, init: RequestInit) => {
      script.asked.push({ url, headers: init.headers as Record<string, string> });
      const next = script.answers.shift();
      if (!next) {
        watch.stop();
        throw new TypeError('the script is over');
      }
      return next(init);
    }) as typeof fetch,
    now: () => 1000,
    pause: async (span) => { script.waits.push(span); },
    silence: (span, then) => {
      expect(span).toBe(SILENCE);
      silent.push(then);
      return { heard: () => {}, stop: () => {} };
    },
  };
  const watch: Watch = new Watch((event) => heard.push(event), (connection) => told.push(connection), around);
  return { watch, heard, told, script, silent, done: watch.run() };
}

describe('the watch', () => {
  beforeEach(() => {
    vi.stubGlobal('sessionStorage', { getItem: () => null, setItem: () => {}, removeItem: () => {} });
  });

  it('goes_on_from_the_last_cursor', async () => {
    const { script, heard, done } = played([
      () => body('id: 7\nevent: statuses\ndata: {}\n\nid: 8\nevent: statuses\ndata: {}\n\n'),
      () => body('id: 9\nevent: statuses\ndata: {}\n\n'),
    ]);
    await done;
    expect(heard.map((event) => event.id)).toEqual(['7', '8', '9']);
    expect(script.asked.map((each) => [each.url, each.headers['last-event-id']])).toEqual([
      ['./api/v1/watch', undefined],
      ['./api/v1/watch?cursor=8', '8'],
      ['./api/v1/watch?cursor=9', '9'],
    ]);
  });

  it('an_event_that_came_in_half_is_asked_for_again', async () => {
    const { script, heard, done } = played([() => body('id: 7\ndata: {}\n\nid: 8\ndata: {}'), () => body('id: 8\ndata: {}\n\n')]);
    await done;
    expect(script.asked[1]?.url).toBe('./api/v1/watch?cursor=7');
    expect(heard.map((event) => event.id)).toEqual(['7', '8']);
  });

  it('a_cursor_that_comes_alone_counts', async () => {
    const { script, done } = played([() => body('id: 7\ndata: {}\n\nid: 8\n\n'), () => body('')]);
    await done;
    expect(script.asked[1]?.url).toBe('./api/v1/watch?cursor=8');
  });

  it('waits_longer_after_each_failure_and_starts_afresh_when_connected', async () => {
    const fail = (): never => { throw new TypeError('refused'); };
    const { script, told, done } = played([fail, fail, fail, () => body('data: {}\n\n'), fail]);
    await done;
    expect(script.waits).toEqual([500, 1000, 2000, 500, 1000]);
    expect(told.map((connection) => connection.word)).toEqual(['connecting', 'lost', 'lost', 'lost', 'live', 'lost', 'lost']);
  });

  it('no_wait_is_longer_than_a_quarter_of_a_minute', () => {
    expect(waitAfter(1)).toBe(500);
    expect(waitAfter(50)).toBe(15_000);
  });

  it('an_agent_that_wants_to_know_who_asks_is_told_apart_from_a_lost_one', async () => {
    const { told, done } = played([() => new Response('{"title":"who?","status":401}', { status: 401 })]);
    await done;
    expect(told[1]).toMatchObject({ word: 'refused', problem: { status: 401, message: 'who?' } });
  });

  it('silence_counts_as_lost', async () => {
    const one = played([(init) => body('id: 3\ndata: {}\n\n', init.signal)]);
    await vi.waitFor(() => expect(one.heard).toHaveLength(1));
    one.silent[0]?.();
    await one.done;
    expect(one.told[2]).toMatchObject({ word: 'lost' });
    expect(one.watch.cursor).toBe('3');
  });
});
