// Everything the page knows of the agent without being asked for it. Decided here: what is read again after the
// connection was lost, and how often views are told. Read `wire/watch` for the connection itself.
import { instant } from '../format/time';
import * as decode from '../wire/decode';
import { agentNow, get, whenUnauthorised } from '../wire/client';
import type { SentEvent } from '../wire/sse';
import type { AgentEvent, Confirmation, Health, TransactionSummary } from '../wire/types';
import { Watch, type Connection } from '../wire/watch';
import { announce } from './announce.svelte';
import { merged, Statuses } from './statuses';

/** How many of the newest transactions and events are read at first. */
const RECENT = 1000;
/** How often views are told of statuses at most, in milliseconds. */
const BREATH = 80;

class Live {
  connection = $state.raw<Connection>({ word: 'connecting' });
  health = $state.raw<Health | undefined>(undefined);
  transactions = $state.raw<TransactionSummary[]>([]);
  completeSince = $state(0);
  events = $state.raw<AgentEvent[]>([]);
  confirmation = $state.raw<Confirmation | undefined>(undefined);
  /** Rises with every change of a status; read it to be told. */
  revision = $state(0);
  /** Rises when the watch began anew: everything that was read by hand is out of date. */
  generation = $state(0);
  /** When the agent was last heard, on our clock. */
  heardAt = $state(0);
  /** Whether the agent wants to know who asks. */
  locked = $state(false);
  /** Whether everything was read at least once. */
  begun = $state(false);
  readonly statuses = new Statuses();
  #watch: Watch | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #told = 0;

  /** The newest transaction. */
  newest = $derived(this.transactions.at(-1)?.seq ?? 0);

  start(): void {
    whenUnauthorised(() => { this.locked = true; });
    this.#watch?.stop();
    this.#watch = new Watch((event) => this.#hear(event), (connection) => this.#connected(connection));
    void this.#watch.run();
  }

  /** Tries to connect at once. */
  hurry(): void {
    this.#watch?.hurry();
  }

  /** Reads again what the watch does not repeat. */
  async refresh(): Promise<void> {
    const answers = await Promise.allSettled([
      get('/health', decode.health),
      get('/transactions', decode.summaries, { last: RECENT }),
      get('/events', decode.events, { last: RECENT }),
      get('/confirmation', decode.confirmation),
    ]);
    const [health, transactions, events, confirmation] = answers;
    if (health.status === 'fulfilled') {
      if (this.health && this.health.instance !== health.value.instance) {
        announce('The agent has started anew.');
        this.transactions = [];
        this.events = [];
      }
      this.health = health.value;
    }
    if (transactions.status === 'fulfilled') {
      this.transactions = merged(this.transactions, transactions.value.transactions);
      this.completeSince = transactions.value.completeSince;
    }
    if (events.status === 'fulfilled') this.events = merged(this.events, events.value);
    if (confirmation.status === 'fulfilled') this.confirmation = confirmation.value;
    this.begun = true;
  }

  /** Reads how the agent is. */
  async refreshHealth(): Promise<void> {
    this.health = await get('/health', decode.health).catch(() => this.health);
  }

  #connected(connection: Connection): void {
    const before = this.connection.word;
    this.connection = connection;
    if (connection.word === 'live') {
      this.locked = false;
      this.heardAt = Date.now();
      this.generation += 1;
      if (before === 'lost') announce('Connected to the agent again.');
      void this.refresh();
    } else if (connection.word === 'lost' && before === 'live') {
      announce('The connection to the agent is lost. What is shown may be out of date.', 'assertive');
    } else if (connection.word === 'refused' && connection.problem.status === 401) {
      this.locked = true;
    }
  }

  #hear(event: SentEvent): void {
    this.heardAt = Date.now();
    const json = JSON.parse(event.text) as unknown;
    if (event.name === 'statuses') {
      if (this.statuses.take(decode.statusesChanged(json)).size > 0) this.#breathe();
    } else if (event.name === 'transaction') {
      this.#transaction(decode.summary(json));
    } else if (event.name === 'event') {
      this.events = merged(this.events, [decode.event(json)]);
    } else if (event.name === 'confirmation') {
      this.confirmation = decode.confirmation(json);
    }
  }

  #transaction(txn: TransactionSummary): void {
    this.transactions = merged(this.transactions, [txn]);
    if (agentNow() - instant(txn.stop) < 10_000 && (txn.operations > 0 || txn.failures > 0)) {
      announce(`Transaction ${txn.seq}: ${txn.outcome || 'ended'}, ${txn.operations} operations.`);
    }
    void this.refreshHealth();
  }

  /** Tells the views at most so often, and always in the end. */
  #breathe(): void {
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, BREATH - (performance.now() - this.#told));
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#told = performance.now();
      this.revision += 1;
    }, wait);
  }
}

export const live = new Live();
