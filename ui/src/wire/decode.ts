// From JSON to what the page holds. Decided here: a field that is absent, null or of another type counts as empty,
// and words are written in one way whichever way they were spelt. What is not decided: what any of it means.
import {
  OUTCOMES, STATES,
  type AgentEvent, type BlastRadius, type Cause, type Confirmation, type Conflict, type DeclaredBy, type Difference,
  type Disturbed, type Edge, type Ended, type Explanation, type Finished, type Graph, type HandlerRecord,
  type Health, type Item, type Json, type Link, type Misplaced, type Moment, type Outcome, type Place, type Plan,
  type Problem, type Side, type SourceSummary, type State, type Status, type StatusesChanged, type Step,
  type Transaction, type TransactionSummary, type Vertex,
} from './types';

type Fields = Record<string, unknown>;

export const fields = (json: unknown): Fields =>
  typeof json === 'object' && json !== null && !Array.isArray(json) ? (json as Fields) : {};
export const text = (value: unknown): string => (typeof value === 'string' ? value : '');
export const flag = (value: unknown): boolean => value === true;
export const count = (value: unknown): number => {
  const number = typeof value === 'string' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : 0;
};
export const list = <T>(value: unknown, each: (entry: unknown) => T): T[] =>
  Array.isArray(value) ? value.map(each) : [];
const texts = (value: unknown): string[] => list(value, text);
const maybe = <T>(value: unknown, each: (entry: unknown) => T): T | undefined =>
  value === undefined || value === null ? undefined : each(value);
const content = (value: unknown): Json | undefined =>
  value === undefined || value === null || value === '' ? undefined : (value as Json);

/** The word of an enumeration: lower case, with spaces, without what protobuf puts in front. */
const word = (value: unknown, prefix = ''): string => {
  const plain = text(value).toLowerCase().replaceAll(/[_-]/g, ' ');
  return plain.startsWith(prefix) ? plain.slice(prefix.length) : plain;
};

export function state(value: unknown): State {
  const name = text(value).toUpperCase().replace(/^STATE_/, '');
  return (STATES as readonly string[]).includes(name) ? (name as State) : 'NONEXISTENT';
}

export function outcome(value: unknown): Outcome | '' {
  const name = word(value, 'outcome ');
  return (OUTCOMES as readonly string[]).includes(name) ? (name as Outcome) : '';
}

export function place(json: unknown): Place {
  const it = fields(json);
  return { file: text(it['file']), line: count(it['line']), column: count(it['column']) };
}

const declaredBy = (json: unknown): DeclaredBy => {
  const it = fields(json);
  return { source: text(it['source']), place: maybe(it['place'], place), txn: count(it['txn']), heard: flag(it['heard']) };
};

export function item(json: unknown): Item {
  const it = fields(json);
  return {
    key: text(it['key']),
    kind: text(it['kind']),
    state: state(it['state']),
    base: text(it['base']),
    declared: content(it['declared']),
    actual: content(it['actual']),
    observed: flag(it['observed']),
    needs: texts(it['needs']),
    unmet: texts(it['unmet']),
    heldBy: texts(it['held_by']),
    error: text(it['error']),
    declaredBy: list(it['declared_by'], declaredBy),
  };
}

export function items(json: unknown): { items: Item[]; next: string } {
  const it = fields(json);
  return { items: list(it['items'], item), next: text(it['next']) };
}

export function status(json: unknown): Status {
  const it = fields(json);
  return {
    key: text(it['key']),
    state: state(it['state']),
    exists: flag(it['exists']),
    last: text(it['last']),
    error: text(it['error']),
    fields: list(it['fields'], (entry) => {
      const field = fields(entry);
      return { path: text(field['path']), message: text(field['message']) };
    }),
    unmet: texts(it['unmet']),
    heldBy: texts(it['held_by']),
    changedBy: count(it['changed_by']),
    derived: list(it['derived'], status),
    why: text(it['why']),
    declared: flag(it['declared']),
  };
}

export function statusesChanged(json: unknown): StatusesChanged {
  const it = fields(json);
  return { snapshot: flag(it['snapshot']), statuses: list(it['statuses'], status), cursor: text(it['cursor']) };
}

export function moment(json: unknown): Moment {
  const it = fields(json);
  return {
    txn: count(it['txn']),
    at: text(it['at']),
    action: word(it['action'], 'action '),
    before: state(it['before']),
    state: state(it['state']),
    value: content(it['value']),
    error: text(it['error']),
    txnType: text(it['txn_type']),
    description: text(it['description']),
  };
}

/** Whether a page of the past has another one before it. */
const earlier = (it: Record<string, unknown>): boolean => text(it['next_page_token']) !== '';

export function moments(json: unknown): { moments: Moment[]; earlier: boolean } {
  const it = fields(json);
  return { moments: list(it['moments'], moment), earlier: earlier(it) };
}

const side = (json: unknown): Side => {
  const it = fields(json);
  return { state: state(it['state']), value: content(it['value']) };
};

export function step(json: unknown): Step {
  const it = fields(json);
  return {
    key: text(it['key']),
    base: text(it['base']),
    action: word(it['action'], 'action '),
    before: side(it['before']),
    after: side(it['after']),
    error: text(it['error']),
    needs: texts(it['needs']),
    recreateReason: text(it['recreate_reason']),
    refused: text(it['refused']),
    derived: flag(it['derived']),
    revert: flag(it['revert']),
    retry: flag(it['retry']),
    recreate: flag(it['recreate']),
    quiet: flag(it['quiet']),
  };
}

const disturbed = (json: unknown): Disturbed => {
  const it = fields(json);
  return { key: text(it['key']), why: text(it['why']), returns: flag(it['returns']) };
};

const blastRadius = (json: unknown): BlastRadius => {
  const it = fields(json);
  return {
    recreated: list(it['recreated'], disturbed),
    removed: texts(it['removed']),
    linksDown: list(it['links_down'], disturbed),
    losing: list(it['losing'], disturbed),
    gaining: texts(it['gaining']),
  };
};

const conflict = (json: unknown): Conflict => {
  const it = fields(json);
  return { key: text(it['key']), heard: text(it['heard']), unheard: text(it['unheard']), place: maybe(it['place'], place) };
};

export function plan(json: unknown): Plan {
  const outer = fields(json);
  const it = 'plan' in outer ? fields(outer['plan']) : outer;
  return {
    hash: text(it['hash']),
    steps: list(it['steps'], step),
    blastRadius: blastRadius(it['blast_radius']),
    afterTxn: count(it['after_txn']),
    conflicts: list(it['conflicts'], conflict),
  };
}

const cause = (json: unknown): Cause => {
  const it = fields(json);
  return { key: text(it['key']), error: text(it['error']) };
};

export function summary(json: unknown): TransactionSummary {
  const it = fields(json);
  return {
    seq: count(it['seq']),
    txnType: text(it['txn_type']),
    description: text(it['description']),
    start: text(it['start']),
    stop: text(it['stop']),
    outcome: outcome(it['outcome']),
    cause: maybe(it['cause'], cause),
    revertCause: maybe(it['revert_cause'], cause),
    operations: count(it['operations']),
    failures: count(it['failures']),
  };
}

export function summaries(json: unknown): { transactions: TransactionSummary[]; completeSince: number } {
  const it = fields(json);
  return { transactions: list(it['transactions'], summary), completeSince: count(it['complete_since']) };
}

export function transaction(json: unknown): Transaction {
  const it = fields(json);
  return {
    summary: summary(it['summary']),
    planned: list(it['planned'], step),
    asPlanned: flag(it['as_planned']),
    executed: list(it['executed'], step),
    failures: list(it['failures'], cause),
    ignored: texts(it['ignored']),
  };
}

const handlerRecord = (json: unknown): HandlerRecord => {
  const it = fields(json);
  return { handler: text(it['handler']), revert: flag(it['revert']), change: text(it['change']), error: text(it['error']) };
};

export function event(json: unknown): AgentEvent {
  const it = fields(json);
  return {
    seq: count(it['seq']),
    start: text(it['start']),
    stop: text(it['stop']),
    followUpTo: maybe(it['follow_up_to'], count),
    name: text(it['name']),
    description: text(it['description']),
    method: text(it['method']),
    handlers: list(it['handlers'], handlerRecord),
    txn: count(it['txn']),
    failures: texts(it['failures']),
    conflicts: list(it['conflicts'], conflict),
  };
}

export function events(json: unknown): { events: AgentEvent[]; earlier: boolean } {
  const it = fields(json);
  return { events: list(it['events'], event), earlier: earlier(it) };
}

const link = (json: unknown): Link => {
  const it = fields(json);
  return {
    depth: count(it['depth']),
    key: text(it['key']),
    state: state(it['state']),
    why: text(it['why']),
    place: maybe(it['place'], place),
  };
};

export function explanation(json: unknown): Explanation {
  const it = fields(json);
  return {
    key: text(it['key']),
    state: state(it['state']),
    kind: text(it['kind']),
    declaredBy: list(it['declared_by'], declaredBy),
    links: list(it['links'], link),
    lastChange: maybe(it['last_change'], moment),
    author: word(it['author'], 'author '),
    lastError: text(it['last_error']),
    lastErrorTxn: count(it['last_error_txn']),
    unblock: texts(it['unblock']),
    paused: flag(it['paused']),
  };
}

const vertex = (json: unknown): Vertex => {
  const it = fields(json);
  return {
    key: text(it['key']),
    kind: text(it['kind']),
    state: state(it['state']),
    base: text(it['base']),
    value: content(it['value']),
  };
};

const edge = (json: unknown): Edge => {
  const it = fields(json);
  return {
    from: text(it['from']),
    to: text(it['to']),
    type: word(it['edge_type'], 'edge ') === 'derived' ? 'derived' : 'needs',
    met: flag(it['met']),
  };
};

export function graph(json: unknown): Graph {
  const it = fields(json);
  return { afterTxn: count(it['after_txn']), vertices: list(it['vertices'], vertex), edges: list(it['edges'], edge) };
}

export function differences(json: unknown): Difference[] {
  return list(fields(json)['differences'], (entry) => {
    const it = fields(entry);
    return { key: text(it['key']), before: side(it['before']), after: side(it['after']) };
  });
}

const waiting = (json: unknown): Confirmation => {
  const it = fields(json);
  return { id: text(it['id']), txn: count(it['txn']), deadline: text(it['deadline']), description: text(it['description']) };
};

/** What waits for a confirmation, if anything does. */
export function confirmation(json: unknown): Confirmation | undefined {
  return maybe(fields(json)['confirmation'], waiting);
}

export function sources(json: unknown): SourceSummary[] {
  return list(fields(json)['sources'], (entry) => {
    const it = fields(entry);
    return {
      name: text(it['name']),
      items: count(it['items']),
      unheard: count(it['unheard']),
      directory: text(it['directory']),
    };
  });
}

export function health(json: unknown): Health {
  const it = fields(json);
  return {
    version: text(it['version']),
    instance: text(it['instance']),
    start: text(it['start']),
    ready: flag(it['ready']),
    txn: count(it['txn']),
    vertices: count(it['vertices']),
    troubles: texts(it['troubles']),
    paused: texts(it['paused']),
    confirmation: confirmation(json),
  };
}

export function paused(json: unknown): string[] {
  return texts(fields(json)['paused']);
}

export function finished(json: unknown): Finished {
  const it = fields(json);
  return { key: text(it['key']), action: word(it['action'], 'action '), error: text(it['error']) };
}

export function ended(json: unknown): Ended {
  const it = fields(json);
  return {
    transaction: maybe(it['transaction'], summary),
    statuses: list(it['statuses'], status),
    executed: list(it['executed'], step),
    confirmation: confirmation(json),
    cursor: text(it['cursor']),
  };
}

const misplaced = (json: unknown): Misplaced => {
  const it = fields(json);
  return { place: place(it['place']), message: text(it['message']), hint: text(it['hint']) };
};

export function problem(json: unknown, httpStatus = 0): Problem {
  const it = fields(json);
  return {
    status: count(it['status']) || httpStatus,
    title: text(it['title']),
    reason: word(it['reason'], 'reason '),
    message: text(it['message']) || text(it['detail']) || text(it['title']),
    causes: texts(it['causes']),
    hint: text(it['hint']),
    keys: texts(it['keys']),
    misplaced: list(it['misplaced'], misplaced),
  };
}
