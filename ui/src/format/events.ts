// Events as a forest: each follow-up under what it follows from.
import type { AgentEvent, TransactionSummary } from '../wire/types';

export interface Branch { event: AgentEvent; depth: number; followUps: number }

/** The events newest first, each followed by its follow-ups in their order. A follow-up of a forgotten event stands alone. */
export function forest(events: AgentEvent[]): Branch[] {
  const known = new Set(events.map((event) => event.seq));
  const under = new Map<number, AgentEvent[]>();
  const roots: AgentEvent[] = [];
  for (const event of [...events].sort((one, other) => one.seq - other.seq)) {
    const parent = event.followUpTo;
    if (parent === undefined || parent === event.seq || !known.has(parent)) roots.push(event);
    else under.set(parent, [...(under.get(parent) ?? []), event]);
  }
  const branches: Branch[] = [];
  for (const root of roots.reverse()) {
    const work: [AgentEvent, number][] = [[root, 0]];
    while (work.length > 0) {
      const [event, depth] = work.pop() as [AgentEvent, number];
      const inner = under.get(event.seq) ?? [];
      branches.push({ event, depth, followUps: inner.length });
      work.push(...inner.toReversed().map((each): [AgentEvent, number] => [each, depth + 1]));
    }
  }
  return branches;
}

const HEALS = /^(healing|drifted|events lost)/i;

/** Whether an event is about drift: something moved, or the agent put it right. */
export const isHealing = (event: AgentEvent): boolean => HEALS.test(event.name);

/** Whether a transaction put something right by itself. */
export const heals = (txn: TransactionSummary): boolean =>
  /^(refresh|downstream resync|retry)/i.test(txn.txnType) || HEALS.test(txn.description);
