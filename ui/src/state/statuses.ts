// The statuses as the watch tells them. Decided here: what a snapshot forgets, and that derived items stand beside
// their bases. Pure: `live` owns one of these.
import { BY_CONCERN, LOOKS } from '../format/states';
import type { State, Status, StatusesChanged } from '../wire/types';

/** Every status by key. */
export class Statuses {
  readonly byKey = new Map<string, Status>();
  /** The derived keys of each base, so that what a base derives no more is forgotten. */
  readonly #derived = new Map<string, string[]>();

  /** Takes in a change; the answer has the keys whose state is another. */
  take(change: StatusesChanged): Set<string> {
    const moved = new Set<string>();
    if (change.snapshot) {
      const told = new Set(change.statuses.flatMap(withDerived).map((status) => status.key));
      for (const key of this.byKey.keys()) if (!told.has(key)) this.#forget(key, moved);
    }
    for (const status of change.statuses) this.#put(status, moved);
    return moved;
  }

  #put(status: Status, moved: Set<string>): void {
    const derived = withDerived(status).slice(1);
    const keys = new Set(derived.map((each) => each.key));
    for (const key of this.#derived.get(status.key) ?? []) if (!keys.has(key)) this.#forget(key, moved);
    if (status.state === 'NONEXISTENT' || status.state === 'REMOVED') {
      this.#derived.delete(status.key);
      this.#forget(status.key, moved);
      return;
    }
    this.#derived.set(status.key, [...keys]);
    for (const each of [status, ...derived]) {
      if (this.byKey.get(each.key)?.state !== each.state) moved.add(each.key);
      this.byKey.set(each.key, each);
    }
  }

  #forget(key: string, moved: Set<string>): void {
    if (this.byKey.delete(key)) moved.add(key);
  }

  /** How many are in each state, what needs a look first. */
  counts(): [State, number][] {
    const counts = new Map<State, number>();
    for (const status of this.byKey.values()) counts.set(status.state, (counts.get(status.state) ?? 0) + 1);
    return BY_CONCERN.filter((state) => counts.has(state)).map((state) => [state, counts.get(state) as number]);
  }

  /** What is not where it should be, by key. */
  unsettled(): Status[] {
    return [...this.byKey.values()]
      .filter((status) => LOOKS[status.state].attention || status.heldBy.length > 0)
      .sort((one, other) => (one.key < other.key ? -1 : 1));
  }
}

/** A status and those of everything it derives. */
export function withDerived(status: Status): Status[] {
  const all: Status[] = [];
  const work = [status];
  while (work.length > 0) {
    const next = work.pop() as Status;
    all.push(next);
    work.push(...next.derived.toReversed());
  }
  return all;
}

/** How many transactions and events are kept of those that come by themselves. */
export const KEPT = 2000;

/** Puts more into a list by seq: each in its place, or instead of its older self; bounded. */
export function merged<T extends { seq: number }>(list: T[], more: T[], most = KEPT): T[] {
  const newest = list.at(-1)?.seq ?? -1;
  const [next] = more;
  // One that is newer than all is what mostly comes.
  if (more.length === 1 && next && next.seq > newest) return [...(list.length >= most ? list.slice(1 - most) : list), next];
  const bySeq = new Map(list.map((entry) => [entry.seq, entry]));
  for (const entry of more) bySeq.set(entry.seq, entry);
  return [...bySeq.values()].sort((one, other) => one.seq - other.seq).slice(-most);
}

/** The list with the newest ones as they were just read. What is older than a hole between the two is dropped: it can be read again. */
export function caughtUp<T extends { seq: number }>(list: T[], newest: T[], most = KEPT): T[] {
  const [first] = newest;
  const hole = first !== undefined && first.seq > (list.at(-1)?.seq ?? first.seq) + 1;
  return merged(hole ? [] : list, newest, most);
}
