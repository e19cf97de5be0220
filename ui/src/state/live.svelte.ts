// Everything the page knows of the agent without being asked for it. Decided here: what is read again after the
// connection was lost, and how often views are told. Read `wire/watch` for the connection itself.
import { instant } from '../format/time';
import * as decode from '../wire/decode';
import { agentNow, get, Refusal, whenUnauthorised } from '../wire/client';
import type { SentEvent } from '../wire/sse';
import type { AgentEvent, Confirmation, Health, TransactionSummary } from '../wire/types';
import { Watch, type Connection } from '../wire/watch';
import { announce } from './announce.svelte';
import { caughtUp, KEPT, merged, Statuses } from './statuses';

/** How many of the newest transactions and events are read at first, and how many more each time somebody asks for earlier ones. */
export const RECENT = 1000;
/** How often views are told of statuses at most, in milliseconds. */
const BREATH = 80;

/** What is known; the page has one of these. */
export class Live {
  connection = $state.raw<Connection>({ word: 'connecting' });
  health = $state.raw<Health | undefined>(undefined);
  transactions = $state.raw<TransactionSummary[]>([]);
  completeSince = $state(0);
  events = $state.raw<AgentEvent[]>([]);
  /** Whether the agent remembers events before those that are known. */
  earlierEvents = $state(false);
  /** Whether earlier transactions or events are being read. */
  digging = $state(false);
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
  /** Whether this connection has told a snapshot, or went on without one: another one means that something was missed. */
  #caughtUp = false;
  /** Rises with every word about a confirmation: an answer that was asked for before is older. */
  #confirmations = 0;

  /** The newest transaction. */
  newest = $derived(this.transactions.at(-1)?.seq ?? 0);
  /** Whether the agent remembers transactions before those that are known. */
  earlierTransactions = $derived((this.transactions[0]?.seq ?? 0) > Math.max(1, this.completeSince));

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
    const turn = this.#confirmations;
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
      this.transactions = caughtUp(this.transactions, transactions.value.transactions, this.#most(this.transactions));
      this.completeSince = transactions.value.completeSince;
    }
    if (events.status === 'fulfilled') {
      this.events = caughtUp(this.events, events.value.events, this.#most(this.events));
      // Who knows earlier ones already knows whether there are others before those.
      if (this.events[0]?.seq === events.value.events[0]?.seq) this.earlierEvents = events.value.earlier;
    }
    if (confirmation.status === 'fulfilled' && turn === this.#confirmations) this.confirmation = confirmation.value;
    this.begun = true;
  }

  /** How many of a list are kept: what somebody asked for is not dropped because something happens. */
  #most(list: unknown[]): number {
    return Math.max(KEPT, list.length);
  }

  /** Reads transactions before those that are known. */
  async digTransactions(): Promise<void> {
    await this.#dig(async () => {
      const before = this.transactions[0]?.seq;
      const { transactions, completeSince } = await get('/transactions', decode.summaries, { last: RECENT, before });
      this.transactions = merged(this.transactions, transactions, this.transactions.length + transactions.length);
      this.completeSince = completeSince;
    });
  }

  /** Reads events before those that are known. */
  async digEvents(): Promise<void> {
    await this.#dig(async () => {
      const before = this.events[0]?.seq;
      const { events, earlier } = await get('/events', decode.events, { last: RECENT, before });
      this.events = merged(this.events, events, this.events.length + events.length);
      this.earlierEvents = earlier;
    });
  }

  async #dig(read: () => Promise<void>): Promise<void> {
    if (this.digging) return;
    this.digging = true;
    try {
      await read();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      announce(`Earlier ones could not be read: ${error.problem.message}`, 'assertive');
    } finally {
      this.digging = false;
    }
  }

  /** Takes what is said about a confirmation. */
  takeConfirmation(confirmation: Confirmation | undefined): void {
    this.#confirmations += 1;
    this.confirmation = confirmation;
  }

  /** Reads what waits for a confirmation; what is heard meanwhile is newer. */
  async refreshConfirmation(): Promise<void> {
    const turn = this.#confirmations;
    const read = await get('/confirmation', decode.confirmation).catch(() => this.confirmation);
    if (turn === this.#confirmations) this.takeConfirmation(read);
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
      this.#caughtUp = false;
      if (before === 'lost') announce('Connected to the agent again.');
      this.#startOver();
    } else if (connection.word === 'lost' && before === 'live') {
      announce('The connection to the agent is lost. What is shown may be out of date.', 'assertive');
    } else if (connection.word === 'refused' && connection.problem.status === 401) {
      this.locked = true;
    }
  }

  /** Reads everything again: something may have been missed. */
  #startOver(): void {
    this.generation += 1;
    void this.refresh();
  }

  #hear(event: SentEvent): void {
    this.heardAt = Date.now();
    const json = JSON.parse(event.text) as unknown;
    if (event.name === 'statuses') {
      const change = decode.statusesChanged(json);
      if (this.statuses.take(change).size > 0) this.#breathe();
      // A connection begins with a snapshot; one that comes later stands for what we were too slow to hear.
      if (change.snapshot && this.#caughtUp) this.#startOver();
      this.#caughtUp = true;
    } else if (event.name === 'transaction') {
      this.#transaction(decode.summary(json));
    } else if (event.name === 'event') {
      this.events = merged(this.events, [decode.event(json)], this.#most(this.events));
    } else if (event.name === 'confirmation') {
      this.takeConfirmation(decode.confirmation(json));
    }
  }

  #transaction(txn: TransactionSummary): void {
    const missed = this.newest > 0 && txn.seq > this.newest + 1;
    this.transactions = missed ? [txn] : merged(this.transactions, [txn], this.#most(this.transactions));
    if (missed) this.#startOver();
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
