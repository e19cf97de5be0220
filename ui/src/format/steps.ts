// Steps as people read them. Decided here: what a transaction put at risk, and how what was carried out differs
// from what was planned.
import type { BlastRadius, Disturbed, Step } from '../wire/types';

/** The steps that say something to a person. */
export const spoken = (steps: Step[]): Step[] => steps.filter((step) => !step.quiet);

/** `12 create, 3 hold`, in the order in which the actions first come. */
export function counted(steps: Step[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const step of spoken(steps)) counts.set(step.action, (counts.get(step.action) ?? 0) + 1);
  return [...counts];
}

/** What the steps of a transaction put at risk; a plan says it itself, a record does not. */
export function blastOf(steps: Step[]): BlastRadius {
  const last = new Map<string, Step>();
  for (const step of steps) last.set(step.key, step);
  const blast: BlastRadius = { recreated: [], removed: [], linksDown: [], losing: [], gaining: [] };
  const seen = new Set<string>();
  for (const step of steps) {
    // What it made itself was not there to be disturbed, also if it had to go again.
    if (!['create', 'delete'].includes(step.action) || seen.has(step.key)) continue;
    seen.add(step.key);
    if (step.action === 'create') {
      if (step.before.state === 'PENDING') blast.gaining.push(step.key);
      continue;
    }
    const end = last.get(step.key) as Step;
    const returns = end !== step && end.action === 'create' && !end.error;
    const disturbed: Disturbed = { key: step.key, why: step.recreateReason, returns };
    if (step.recreate || step.recreateReason) blast.recreated.push(disturbed);
    else if (returns || step.after.state === 'PENDING') blast.losing.push(disturbed);
    else blast.removed.push(step.key);
  }
  return blast;
}

/** How many items are disturbed; one that is made again and down meanwhile is one. */
export const blastSize = (blast: BlastRadius): number =>
  new Set([...blast.removed, ...[...blast.recreated, ...blast.losing, ...blast.linksDown].map((each) => each.key)]).size;

export interface Compared {
  step: Step;
  /** Whether it was carried out as planned, was planned and not carried out, or came on top. */
  word: 'planned' | 'left out' | 'unplanned';
}

const identity = (step: Step): string => `${step.action} ${step.key}`;

/** What was carried out, with what was left out behind it, each told apart. */
export function comparePlan(planned: Step[], executed: Step[]): Compared[] {
  const open = new Map<string, number>();
  for (const step of planned) open.set(identity(step), (open.get(identity(step)) ?? 0) + 1);
  const compared: Compared[] = executed.map((step) => {
    const left = open.get(identity(step)) ?? 0;
    if (left > 0) open.set(identity(step), left - 1);
    return { step, word: left > 0 ? 'planned' : 'unplanned' };
  });
  // The last ones of equal steps are those that were left out.
  const leftOut: Step[] = [];
  for (const step of [...planned].reverse()) {
    const left = open.get(identity(step)) ?? 0;
    if (left > 0) {
      open.set(identity(step), left - 1);
      leftOut.unshift(step);
    }
  }
  return [...compared, ...leftOut.map((step): Compared => ({ step, word: 'left out' }))];
}
