// The graph of any moment. Decided here: what is read again when, what is kept of the past, and how two moments
// become one picture. The past does not change, so it is read once.
import { marksOf, union, type Mark } from '../graph/model';
import { get } from '../wire/client';
import * as decode from '../wire/decode';
import type { Graph } from '../wire/types';

const KEPT = 24;

export interface Picture { graph: Graph; touched: Set<string>; marks: Map<string, Mark>; past: boolean }

const nothing = { touched: new Set<string>(), marks: new Map<string, Mark>() };

/** Reads the graphs of moments, and keeps the last ones. */
export class Moments {
  #past = new Map<number, Promise<Graph>>();

  /** Forgets everything: the agent is another one. */
  forget(): void {
    this.#past.clear();
  }

  present(signal?: AbortSignal): Promise<Graph> {
    return get('/graph', decode.graph, {}, signal);
  }

  /** As it was after a transaction. */
  after(seq: number): Promise<Graph> {
    const known = this.#past.get(seq);
    if (known) return known;
    const asked = get('/graph', decode.graph, { at: seq });
    this.#past.set(seq, asked);
    asked.catch(() => this.#past.delete(seq));
    for (const old of this.#past.keys()) {
      if (this.#past.size <= KEPT) break;
      this.#past.delete(old);
    }
    return asked;
  }

  /** What is to be drawn for one moment, or for two. */
  async picture(present: Graph, at: number | undefined, from: number | undefined, signal: AbortSignal): Promise<Picture> {
    if (at === undefined && from === undefined) return { graph: present, ...nothing, past: false };
    const second = at === undefined ? present : await this.after(at);
    if (from !== undefined) {
      const [first, differences] = await Promise.all([
        from > 0 ? this.after(from) : Promise.resolve<Graph>({ afterTxn: 0, vertices: [], edges: [] }),
        get('/diff', decode.differences, { from: String(from), to: at }, signal),
      ]);
      return { graph: union(first, second), touched: nothing.touched, marks: marksOf(differences), past: true };
    }
    const touched = await get(`/transactions/${at}`, decode.transaction, {}, signal).then(
      (txn) => new Set((txn.asPlanned ? txn.planned : txn.executed).map((step) => step.key)),
      () => new Set<string>(),
    );
    return { graph: second, touched, marks: nothing.marks, past: true };
  }
}
