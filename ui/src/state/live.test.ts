import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Live, RECENT } from './live.svelte';

const seqs = (from: number, to: number) => Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => ({ seq: from + index }));
const WAITS = { id: '7', txn: 7, deadline: '2026-11-18T00:00:00Z', description: 'a trial' };

/** An agent that remembers so many transactions and events, and says what it is told to say. */
class Agent {
  asked: string[] = [];
  newest = 10;
  completeSince = 1;
  confirmation: typeof WAITS | null = null;
  #say: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor() {
    vi.stubGlobal('sessionStorage', { getItem: () => null });
    vi.stubGlobal('fetch', (url: string) => this.#answer(new URL(url, 'http://agent/')));
  }

  say(name: string, value: unknown): void {
    this.#say?.enqueue(new TextEncoder().encode(`event: ${name}\ndata: ${JSON.stringify(value)}\n\n`));
  }

  async #answer(url: URL): Promise<Response> {
    const path = url.pathname.replace('/api/v1', '');
    if (path === '/watch') return new Response(new ReadableStream({ start: (stream) => { this.#say = stream; } }));
    this.asked.push(`${path}${url.search}`);
    const last = Number(url.searchParams.get('last')) || Number.MAX_SAFE_INTEGER;
    const before = Number(url.searchParams.get('before')) || this.newest + 1;
    const list = seqs(Math.max(this.completeSince, before - last), before - 1);
    const first = list[0]?.seq ?? 0;
    const next_page_token = first > this.completeSince ? String(first) : '';
    const answers: Record<string, unknown> = {
      '/health': { instance: 'one', ready: true },
      '/transactions': { transactions: list, complete_since: this.completeSince, next_page_token },
      '/events': { events: list, next_page_token },
      '/confirmation': { confirmation: this.confirmation },
    };
    return Response.json(answers[path]);
  }
}

describe('what the page knows', () => {
  let agent: Agent;
  let live: Live;
  const begin = async (): Promise<void> => {
    live = new Live();
    live.start();
    await vi.waitFor(() => expect(live.begun).toBe(true));
    agent.say('statuses', { snapshot: true, statuses: [], cursor: 'a' });
    await vi.waitFor(() => expect(live.heardAt).toBeGreaterThan(0));
  };
  beforeEach(() => { agent = new Agent(); });

  it('a_snapshot_in_the_middle_means_that_something_was_missed', async () => {
    agent.confirmation = WAITS;
    await begin();
    expect(live.confirmation?.id).toBe('7');
    agent.confirmation = null;
    agent.say('statuses', { snapshot: false, statuses: [], cursor: 'b' });
    agent.say('statuses', { snapshot: true, statuses: [], cursor: 'c' });
    await vi.waitFor(() => expect(live.confirmation).toBeUndefined());
    expect(live.generation).toBe(2);
  });

  it('a_transaction_that_skips_others_means_that_something_was_missed', async () => {
    agent.confirmation = WAITS;
    await begin();
    agent.say('transaction', { seq: 11 });
    await vi.waitFor(() => expect(live.newest).toBe(11));
    expect([live.generation, live.transactions.length]).toEqual([1, 11]);
    agent.confirmation = null;
    agent.newest = 20;
    agent.say('transaction', { seq: 20 });
    await vi.waitFor(() => expect(live.confirmation).toBeUndefined());
    expect(live.transactions.map((txn) => txn.seq)).toEqual(seqs(1, 20).map((each) => each.seq));
  });

  it('what_is_heard_of_a_confirmation_is_newer_than_what_was_asked_before', async () => {
    await begin();
    const asked = live.refreshConfirmation();
    live.takeConfirmation(WAITS);
    await asked;
    expect(live.confirmation?.id).toBe('7');
    await live.refreshConfirmation();
    expect(live.confirmation).toBeUndefined();
  });

  it('earlier_transactions_and_events_are_read_when_asked_for_and_stay', async () => {
    agent.newest = 2600;
    await begin();
    expect([live.transactions.length, live.earlierTransactions, live.earlierEvents]).toEqual([RECENT, true, true]);
    for (const oldest of [601, 1]) {
      await live.digTransactions();
      await live.digEvents();
      expect([live.transactions[0]?.seq, live.events[0]?.seq]).toEqual([oldest, oldest]);
    }
    expect([live.earlierTransactions, live.earlierEvents]).toEqual([false, false]);
    const dug = agent.asked.filter((path) => path.includes('before'));
    expect(dug, 'only what is not known is read').toEqual([1601, 601].flatMap((seq) => ['transactions', 'events'].map((list) => `/${list}?last=${RECENT}&before=${seq}`)));
    agent.newest = 2601;
    agent.say('transaction', { seq: 2601 });
    await vi.waitFor(() => expect(live.newest).toBe(2601));
    expect(live.transactions.length).toBe(2600);
    await live.refresh();
    expect(live.transactions.length).toBe(2600);
    expect(live.earlierEvents, 'what was read before the newest page says more about it').toBe(false);
  });
});
