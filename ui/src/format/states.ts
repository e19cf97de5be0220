// How each state looks: a tone, a dash and a glyph, so that no state is told by its colour alone.
// The sentences are those of docs/reference/states.md.
import type { Outcome, State } from '../wire/types';

export interface Look {
  /** The name of its colour: `--tone-NAME`, `--tone-NAME-soft`. */
  tone: 'good' | 'given' | 'found' | 'wait' | 'bad' | 'refused' | 'again' | 'busy' | 'gone' | 'odd';
  /** The glyph as a path on a grid of 16 by 16, drawn with a round pen. */
  glyph: string;
  /** The border as dashes; empty for a line. */
  dash: number[];
  /** What it means, in one line. */
  about: string;
  /** Whether somebody should look. */
  attention: boolean;
}

export const CHECK = 'M3.500 8.500l3 3 6-7';
export const CROSS = 'M4 4l8 8M12 4l-8 8';
export const CLOCK = 'M8 4.500V8l2.500 1.500M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0';
const TURN = 'M13 5v-3M13 5h-3M13 5A6 6 0 1 0 14 8.500';
const BARRED = 'M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0M4 12l8-8';
const DIAMOND = 'M8 2l6 6-6 6-6-6z';
const LENS = 'M11 7a4 4 0 1 1-8 0 4 4 0 0 1 8 0M10 10l4 4';
const ASK = 'M5.500 6a2.500 2.500 0 1 1 3.500 2.300c-.7.3-1 .8-1 1.700M8 13v.1';
const MINUS = 'M3.500 8h9';
const DOT = 'M8 7.900v.2';
export const RIGHT = 'M5 3l5 5-5 5M2 8h8';
export const LEFT = 'M11 3L6 8l5 5M14 8H6';
const EMPTY = 'M3 3h10v10H3zM6 8h4';

export const LOOKS: Record<State, Look> = {
  CONFIGURED: { tone: 'good', glyph: CHECK, dash: [], about: 'exists as declared', attention: false },
  OBTAINED: { tone: 'given', glyph: DIAMOND, dash: [], about: 'exists, and nobody here declared or made it', attention: false },
  DISCOVERED: { tone: 'found', glyph: LENS, dash: [], about: 'found as ours, and this run has not been told about it', attention: false },
  PENDING: { tone: 'wait', glyph: CLOCK, dash: [5, 4], about: 'waits for a dependency, or for its base', attention: true },
  APPLYING: { tone: 'busy', glyph: RIGHT, dash: [], about: 'a create or update was accepted, not confirmed yet', attention: false },
  REMOVING: { tone: 'busy', glyph: LEFT, dash: [2, 3], about: 'a delete was accepted, not confirmed yet', attention: false },
  RETRYING: { tone: 'again', glyph: TURN, dash: [], about: 'its last operation failed, a retry is planned', attention: true },
  FAILED: { tone: 'bad', glyph: CROSS, dash: [], about: 'its last operation failed, no retry is planned', attention: true },
  INVALID: { tone: 'refused', glyph: BARRED, dash: [], about: 'its declared value is refused', attention: true },
  MISSING: { tone: 'gone', glyph: ASK, dash: [3, 3], about: 'made here, still declared, and a refresh did not find it', attention: true },
  UNIMPLEMENTED: { tone: 'odd', glyph: EMPTY, dash: [3, 3], about: 'declared, and no kind owns its key', attention: true },
  REMOVED: { tone: 'gone', glyph: MINUS, dash: [2, 3], about: 'gone', attention: false },
  NONEXISTENT: { tone: 'gone', glyph: DOT, dash: [2, 3], about: 'nobody declared it and it is not there', attention: false },
};

/** The order in which people want to read states: what needs a look first. */
export const BY_CONCERN: State[] = [
  'FAILED', 'INVALID', 'RETRYING', 'MISSING', 'UNIMPLEMENTED', 'PENDING', 'APPLYING', 'REMOVING',
  'CONFIGURED', 'OBTAINED', 'DISCOVERED', 'REMOVED', 'NONEXISTENT',
];

export const OUTCOME_LOOKS: Record<Outcome, { tone: Look['tone']; glyph: string; about: string }> = {
  applied: { tone: 'good', glyph: CHECK, about: 'everything asked for exists' },
  pending: { tone: 'wait', glyph: CLOCK, about: 'nothing failed; some of what was asked waits' },
  incomplete: { tone: 'again', glyph: ASK, about: 'something failed, the rest was applied' },
  reverted: { tone: 'bad', glyph: LEFT, about: 'something failed and everything is as before' },
  'revert failed': { tone: 'refused', glyph: CROSS, about: 'something failed and the way back failed too' },
};

const ACTION_MARKS: Record<string, { mark: string; tone: Look['tone'] }> = {
  create: { mark: '+', tone: 'good' },
  update: { mark: '~', tone: 'busy' },
  delete: { mark: '−', tone: 'bad' },
  hold: { mark: '…', tone: 'wait' },
  refuse: { mark: '!', tone: 'refused' },
  adopt: { mark: '=', tone: 'found' },
};

/** The sign and tone of a step's action. */
export const actionLook = (action: string): { mark: string; tone: Look['tone'] } =>
  ACTION_MARKS[action] ?? { mark: '·', tone: 'gone' };
