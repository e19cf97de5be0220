// Something that is asked of the agent for one view, and asked again when it may have changed. Decided here: an
// answer that was overtaken is dropped, and an old answer stays, with the problem beside it, when the next one fails.
import { Refusal } from '../wire/client';
import type { Problem } from '../wire/types';

export class Reading<T> {
  value = $state.raw<T | undefined>(undefined);
  problem = $state.raw<Problem | undefined>(undefined);
  busy = $state(false);
  #turn = 0;
  #abort: AbortController | undefined;

  /** Asks; `keep` says whether the answer before stays until this one comes. */
  async ask(question: (signal: AbortSignal) => Promise<T>, keep = true): Promise<void> {
    this.#abort?.abort();
    const abort = (this.#abort = new AbortController());
    this.#turn += 1;
    const turn = this.#turn;
    if (!keep) {
      this.value = undefined;
      this.problem = undefined;
    }
    this.busy = true;
    try {
      const value = await question(abort.signal);
      if (turn !== this.#turn) return;
      this.value = value;
      this.problem = undefined;
    } catch (error) {
      if (turn !== this.#turn || abort.signal.aborted) return;
      if (!(error instanceof Refusal)) throw error;
      this.problem = error.problem;
    } finally {
      if (turn === this.#turn) this.busy = false;
    }
  }

  stop(): void {
    this.#turn += 1;
    this.#abort?.abort();
    this.busy = false;
  }
}

/** Calls at once, then at most once per span, and always a last time. */
export function paced(span: number, then: () => void): { call: () => void; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;
  const rest = (): void => {
    timer = setTimeout(() => {
      timer = undefined;
      if (!again) return;
      again = false;
      then();
      rest();
    }, span);
  };
  return {
    call: () => {
      if (timer !== undefined) { again = true; return; }
      then();
      rest();
    },
    stop: () => {
      clearTimeout(timer);
      timer = undefined;
      again = false;
    },
  };
}
