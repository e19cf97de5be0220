// The watch: what a server says without being asked, through every loss of the connection. Decided here: when the
// connection counts as lost, how long to wait before the next attempt, and that it goes on from the last cursor.
// What is not decided: what the page makes of it; see `state/live.svelte.ts`.
import { address, headers, noteClock, refusalOf, sentEvents, Refusal } from './client';
import { EventReader, type SentEvent } from './sse';
import type { Problem } from './types';

/** Silence after which the connection counts as lost; servers say something every 15 seconds. */
export const SILENCE = 40_000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

export type Connection =
  | { word: 'connecting' }
  | { word: 'live' }
  | { word: 'lost'; since: number; again: number; why: string }
  | { word: 'refused'; problem: Problem };

/** How long to wait before attempt `failures + 1`: doubling, bounded. */
export const waitAfter = (failures: number): number => Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.max(0, failures - 1));

export interface Surroundings {
  fetch: typeof fetch;
  now: () => number;
  /** Resolves after that many milliseconds, or at once when the signal says so. */
  pause: (span: number, signal: AbortSignal) => Promise<void>;
  /** Calls back once nothing was heard for that long; the answer is told of every sound. */
  silence: (span: number, then: () => void) => { heard: () => void; stop: () => void };
}

const untilAborted = (span: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, span);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  });

const watchdog = (span: number, then: () => void): { heard: () => void; stop: () => void } => {
  let timer = setTimeout(then, span);
  return {
    heard: () => { clearTimeout(timer); timer = setTimeout(then, span); },
    stop: () => clearTimeout(timer),
  };
};

const here = (): Surroundings => ({ fetch: fetch.bind(globalThis), now: Date.now, pause: untilAborted, silence: watchdog });

/** One watch over any number of connections. */
export class Watch {
  /** The last cursor: where the next connection goes on. */
  cursor = '';
  #stop = new AbortController();
  #wake = new AbortController();

  constructor(
    private readonly hear: (event: SentEvent) => void,
    private readonly tell: (connection: Connection) => void,
    private readonly around: Surroundings = here(),
    private readonly where: (cursor: string) => string = (cursor) => address('/watch', { cursor }),
  ) {}

  /** Ends the watch. */
  stop(): void {
    this.#stop.abort();
    this.#wake.abort();
  }

  /** Tries again at once instead of waiting. */
  hurry(): void {
    this.#wake.abort();
  }

  /** Watches until stopped. */
  async run(): Promise<void> {
    let failures = 0;
    let lostSince = 0;
    this.tell({ word: 'connecting' });
    while (!this.#stop.signal.aborted) {
      const why = await this.#connection(() => { failures = 0; lostSince = 0; });
      if (this.#stop.signal.aborted) return;
      this.#wake = new AbortController();
      failures += 1;
      lostSince ||= this.around.now();
      const span = waitAfter(failures);
      if (typeof why === 'string') this.tell({ word: 'lost', since: lostSince, again: this.around.now() + span, why });
      else this.tell({ word: 'refused', problem: why });
      await this.around.pause(span, this.#wake.signal);
    }
  }

  /** One connection from beginning to end; says why it ended. */
  async #connection(opened: () => void): Promise<string | Problem> {
    const cut = new AbortController();
    const cutNow = (): void => cut.abort();
    this.#stop.signal.addEventListener('abort', cutNow, { once: true });
    let silent = false;
    const reader = new EventReader();
    reader.lastId = this.cursor;
    const dog = this.around.silence(SILENCE, () => { silent = true; cut.abort(); });
    try {
      const resume: Record<string, string> = this.cursor ? { 'last-event-id': this.cursor } : {};
      const answer = await this.around.fetch(this.where(this.cursor), {
        headers: headers({ accept: 'text/event-stream', ...resume }),
        signal: cut.signal,
        cache: 'no-store',
      });
      noteClock(answer.headers.get('date'));
      if (!answer.ok) return (await refusalOf(answer)).problem;
      opened();
      this.tell({ word: 'live' });
      for await (const event of sentEvents(answer, reader, dog.heard)) {
        this.hear(event);
        this.cursor = event.id;
      }
      // A cursor may come alone, without anything to tell.
      this.cursor = reader.lastId;
      return 'the connection was closed';
    } catch (error) {
      if (silent) return 'nothing was heard for too long';
      if (error instanceof Refusal) return error.problem;
      return error instanceof Error ? error.message : String(error);
    } finally {
      dog.stop();
      cut.abort();
      this.#stop.signal.removeEventListener('abort', cutNow);
    }
  }
}
