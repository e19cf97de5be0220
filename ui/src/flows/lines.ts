// How instances and flows stand together, as the controller tells it. Decided here: how its JSON is read, what tells one
// line from another, in which order people want to see them, and how each status looks. Pure.
import { CHECK, CLOCK, CROSS, LEFT, RIGHT, type Look } from '../format/states';
import { count, fields, flag, list, state, text } from '../wire/decode';
import type { State } from '../wire/types';

/** How both stand together, in the order in which people want to see them: what needs a look first. */
export const TOGETHER = ['Failed', 'Provisioning', 'Deprovisioning', 'Running'] as const;
export type Together = (typeof TOGETHER)[number];
export type Truth = 'True' | 'False' | 'Unknown';

export interface Condition { name: string; truth: Truth; informative: boolean; reason: string; message: string; since: string }

export interface Line {
  namespace: string;
  instance: string;
  flow: string;
  together: Together;
  reason: string;
  message: string;
  since: string;
  source: string;
  sink: string;
  conditions: Condition[];
}

/** What was told at once: all lines, or those that differ. */
export interface Told { whole: boolean; complete: boolean; lines: Line[]; gone: string[] }

/** One link of a chain of causes. */
export interface Cause { depth: number; key: string; state: State; why: string }

type Glance = Pick<Look, 'tone' | 'glyph' | 'about'>;

export const TOGETHER_LOOKS: Record<Together, Glance> = {
  Failed: { tone: 'bad', glyph: CROSS, about: 'something is wrong, and events are not delivered' },
  Provisioning: { tone: 'busy', glyph: RIGHT, about: 'it is being made, or changed' },
  Deprovisioning: { tone: 'gone', glyph: LEFT, about: 'it is being removed' },
  Running: { tone: 'good', glyph: CHECK, about: 'events are delivered' },
};

export const TRUTH_LOOKS: Record<Truth, Glance> = {
  True: { tone: 'good', glyph: CHECK, about: 'it holds' },
  False: { tone: 'bad', glyph: CROSS, about: 'it does not hold, and waiting alone will not change that' },
  Unknown: { tone: 'wait', glyph: CLOCK, about: 'nobody knows yet' },
};

const oneOf = <T extends string>(words: readonly T[], value: unknown, otherwise: T): T =>
  (words as readonly unknown[]).includes(value) ? (value as T) : otherwise;

function condition(json: unknown): Condition {
  const from = fields(json);
  return {
    name: text(from['type']), truth: oneOf(['True', 'False', 'Unknown'], from['status'], 'Unknown'),
    informative: from['severity'] === 'Info', reason: text(from['reason']), message: text(from['message']),
    since: text(from['lastTransitionTime']),
  };
}

function line(json: unknown): Line {
  const from = fields(json);
  return {
    namespace: text(from['namespace']), instance: text(from['instance']), flow: text(from['flow']),
    together: oneOf(TOGETHER, from['status'], 'Failed'), reason: text(from['reason']), message: text(from['message']),
    since: text(from['since']), source: text(from['source']), sink: text(from['sink']),
    // What decides comes before what it decides about, and what is for information last.
    conditions: list(from['conditions'], condition).sort((one, other) => rank(one) - rank(other)),
  };
}

const ORDER = ['SourceReady', 'SinkReady', 'SubscriptionReady', 'Ready'];
const rank = (of: Condition): number => (of.informative ? ORDER.length + 1 : ORDER.indexOf(of.name));

/** What tells a line from others. */
export const nameOf = (of: Pick<Line, 'namespace' | 'instance' | 'flow'>): string => `${of.namespace}/${of.instance}/${of.flow}`;

/** What a line is called: by its instance, which people ordered, or else by its flow. */
export const titleOf = (of: Line): string => of.instance || of.flow;

export function told(json: unknown): Told {
  const from = fields(json);
  const gone = list(from['gone'], (name) => nameOf(line(name)));
  return { whole: flag(from['whole']), complete: flag(from['complete']), lines: list(from['lines'], line), gone };
}

export const causes = (json: unknown): Cause[][] =>
  list(json, (chain) => list(chain, (link) => {
    const from = fields(link);
    return { depth: count(from['depth']), key: text(from['key']), state: state(from['state']), why: text(from['why']) };
  }));

/** The lines after something was told. */
export function merged(known: ReadonlyMap<string, Line>, news: Told): Map<string, Line> {
  const next = new Map(news.whole ? [] : known);
  for (const name of news.gone) next.delete(name);
  for (const each of news.lines) next.set(nameOf(each), each);
  return next;
}

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

/** By concern, then by namespace and name. */
export const sorted = (lines: Iterable<Line>): Line[] =>
  [...lines].sort((one, other) =>
    TOGETHER.indexOf(one.together) - TOGETHER.indexOf(other.together) || compare(one.namespace, other.namespace) || compare(titleOf(one), titleOf(other)));

/** Whether every word that was typed is somewhere in a line. */
export function passes(of: Line, typed: string, together: string): boolean {
  if (together && of.together !== together) return false;
  const all = [of.namespace, of.instance, of.flow, of.source, of.reason, of.message].join(' ').toLowerCase();
  return typed.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

/** How many lines there are of each status. */
export function counts(lines: Iterable<Line>): Record<Together, number> {
  const found: Record<Together, number> = { Failed: 0, Provisioning: 0, Deprovisioning: 0, Running: 0 };
  for (const each of lines) found[each.together] += 1;
  return found;
}

/** What is worth telling somebody who listens: which lines stand otherwise than before. */
export const turned = (known: ReadonlyMap<string, Line>, news: Told): Line[] =>
  news.whole ? [] : news.lines.filter((each) => known.get(nameOf(each))?.together !== each.together);
