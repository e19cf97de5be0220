// What the agent says, as the page holds it. Decided here: names and shapes. `decode` makes these out of JSON,
// so that nothing behind it asks whether a field was there.

export const STATES = [
  'NONEXISTENT', 'MISSING', 'UNIMPLEMENTED', 'REMOVED', 'CONFIGURED', 'OBTAINED', 'DISCOVERED',
  'PENDING', 'INVALID', 'FAILED', 'RETRYING', 'APPLYING', 'REMOVING',
] as const;
export type State = (typeof STATES)[number];

export const OUTCOMES = ['applied', 'pending', 'incomplete', 'reverted', 'revert failed'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export type Json = null | boolean | number | string | Json[] | { [field: string]: Json };

export interface Place { file: string; line: number; column: number }

export interface DeclaredBy { source: string; place?: Place | undefined; txn: number; heard: boolean }

export interface Item {
  key: string;
  kind: string;
  state: State;
  base: string;
  declared?: Json | undefined;
  actual?: Json | undefined;
  observed: boolean;
  needs: string[];
  unmet: string[];
  heldBy: string[];
  error: string;
  declaredBy: DeclaredBy[];
}

export interface FieldError { path: string; message: string }

export interface Status {
  key: string;
  state: State;
  exists: boolean;
  last: string;
  error: string;
  fields: FieldError[];
  unmet: string[];
  heldBy: string[];
  changedBy: number;
  derived: Status[];
  why: string;
  declared: boolean;
}

export interface StatusesChanged { snapshot: boolean; statuses: Status[]; cursor: string }

export interface Moment {
  txn: number;
  at: string;
  action: string;
  before: State;
  state: State;
  value?: Json | undefined;
  error: string;
  txnType: string;
  description: string;
}

export interface Side { state: State; value?: Json | undefined }

export interface Step {
  key: string;
  base: string;
  action: string;
  before: Side;
  after: Side;
  error: string;
  needs: string[];
  recreateReason: string;
  refused: string;
  derived: boolean;
  revert: boolean;
  retry: boolean;
  recreate: boolean;
  quiet: boolean;
}

export interface Disturbed { key: string; why: string; returns: boolean }

export interface BlastRadius {
  recreated: Disturbed[];
  removed: string[];
  linksDown: Disturbed[];
  losing: Disturbed[];
  gaining: string[];
}

export interface Conflict { key: string; heard: string; unheard: string; place?: Place | undefined }

export interface Plan {
  hash: string;
  steps: Step[];
  blastRadius: BlastRadius;
  afterTxn: number;
  conflicts: Conflict[];
}

export interface Cause { key: string; error: string }

export interface TransactionSummary {
  seq: number;
  txnType: string;
  description: string;
  start: string;
  stop: string;
  outcome: Outcome | '';
  cause?: Cause | undefined;
  revertCause?: Cause | undefined;
  operations: number;
  failures: number;
}

export interface Transaction {
  summary: TransactionSummary;
  planned: Step[];
  asPlanned: boolean;
  executed: Step[];
  failures: Cause[];
  ignored: string[];
}

export interface HandlerRecord { handler: string; revert: boolean; change: string; error: string }

export interface AgentEvent {
  seq: number;
  start: string;
  stop: string;
  followUpTo?: number | undefined;
  name: string;
  description: string;
  method: string;
  handlers: HandlerRecord[];
  txn: number;
  failures: string[];
  conflicts: Conflict[];
}

export interface Link { depth: number; key: string; state: State; why: string; place?: Place | undefined }

export interface Explanation {
  key: string;
  state: State;
  kind: string;
  declaredBy: DeclaredBy[];
  links: Link[];
  lastChange?: Moment | undefined;
  author: string;
  lastError: string;
  lastErrorTxn: number;
  unblock: string[];
  paused: boolean;
}

export interface Vertex { key: string; kind: string; state: State; base: string; value?: Json | undefined }

export interface Edge { from: string; to: string; type: 'needs' | 'derived'; met: boolean }

export interface Graph { afterTxn: number; vertices: Vertex[]; edges: Edge[] }

export interface Difference { key: string; before: Side; after: Side }

export interface Confirmation { id: string; txn: number; deadline: string; description: string }

export interface SourceSummary { name: string; items: number; unheard: number; directory: string }

export interface Health {
  version: string;
  instance: string;
  start: string;
  ready: boolean;
  txn: number;
  vertices: number;
  troubles: string[];
  paused: string[];
  confirmation?: Confirmation | undefined;
}

export interface Finished { key: string; action: string; error: string }

export interface Ended {
  transaction?: TransactionSummary | undefined;
  statuses: Status[];
  executed: Step[];
  confirmation?: Confirmation | undefined;
  cursor: string;
}

export interface Misplaced { place: Place; message: string; hint: string }

export interface Problem {
  status: number;
  title: string;
  reason: string;
  message: string;
  causes: string[];
  hint: string;
  keys: string[];
  misplaced: Misplaced[];
}

export interface TextDocument { name: string; text: string }

/** What a plan or an apply is asked for: one of a declaration, an earlier moment, or the end of a source. */
export type Asked =
  | { documents: TextDocument[]; source: string; everything: boolean; on_failure: 'revert' | 'continue' }
  | { revert_to: number }
  | { remove_source: string };
