import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { address, agentNow, apply, enter, get, keyPath, noteClock, Refusal, send } from './client';

describe('the client', () => {
  const asked: { url: string; init: RequestInit }[] = [];
  let answer: () => Response | Promise<Response> = () => new Response('{}');
  beforeEach(() => {
    asked.length = 0;
    vi.stubGlobal('sessionStorage', { getItem: () => 'secret', setItem: () => {}, removeItem: () => {} });
    vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
      asked.push({ url, init });
      return answer();
    });
  });
  afterEach(() => vi.unstubAllGlobals());

  it('every_write_carries_the_header_and_the_token', async () => {
    answer = () => new Response('{"paused":[]}');
    await send('PUT', '/paused', { prefix: 'a', paused: true }, (json) => json);
    expect(asked[0]?.init.headers).toMatchObject({ 'x-kilter': '1', authorization: 'Bearer secret' });
  });

  it('a_token_is_kept_and_an_address_begins_a_session_once', async () => {
    const kept: string[] = [];
    vi.stubGlobal('sessionStorage', { getItem: () => '', setItem: (_: string, value: string) => kept.push(value), removeItem: () => kept.push('') });
    await enter('secret');
    expect([kept, asked]).toEqual([['secret'], []]);
    await enter('http://127.0.0.1:7480/?token=0a1b');
    expect(kept).toEqual(['secret', '']);
    expect(asked[0]?.url).toBe('./?token=0a1b');
  });

  it('empty_questions_are_left_out_of_the_address', () => {
    expect(address('/items', { kind: '', limit: 5, derived: false, after: undefined })).toBe('./api/v1/items?limit=5');
  });

  it('the_slashes_of_a_key_stay', () => {
    expect(keyPath('linux/route/a b/::/0')).toBe('linux/route/a%20b/%3A%3A/0');
  });

  it('an_answer_that_is_none_is_a_refusal_with_its_causes', async () => {
    answer = () => new Response('{"message":"could not plan","causes":["why"],"reason":"invalid"}', { status: 422 });
    await expect(get('/x', (json) => json)).rejects.toMatchObject({ problem: { message: 'could not plan', causes: ['why'], status: 422 } });
    answer = () => new Response('<html>', { status: 502, statusText: 'Bad Gateway' });
    await expect(get('/x', (json) => json)).rejects.toMatchObject({ problem: { message: 'the agent answered 502 Bad Gateway' } });
  });

  it('an_agent_that_is_away_is_a_refusal_with_a_hint', async () => {
    answer = () => { throw new TypeError('connection refused'); };
    await expect(get('/x', (json) => json)).rejects.toMatchObject({ problem: { causes: ['connection refused'], hint: expect.stringContaining('kilter agent') } });
  });

  it('progress_is_told_as_it_comes_and_the_end_is_the_answer', async () => {
    const text = 'event: planned\ndata: {"hash":"h"}\n\nevent: finished\ndata: {"key":"a","action":"create"}\n\nevent: ended\ndata: {"transaction":{"seq":4,"outcome":"applied"}}\n\n';
    answer = () => new Response(text, { headers: { 'content-type': 'text/event-stream' } });
    const told: string[] = [];
    const ended = await apply({ revert_to: 3 }, { expected_hash: 'h' }, { planned: (plan) => told.push(plan.hash), finished: (step) => told.push(step.key) });
    expect(told).toEqual(['h', 'a']);
    expect(ended.transaction).toMatchObject({ seq: 4, outcome: 'applied' });
    expect(JSON.parse(asked[0]?.init.body as string)).toEqual({ revert_to: 3, expected_hash: 'h' });
  });

  it('an_apply_that_breaks_off_is_no_success', async () => {
    answer = () => new Response('event: planned\ndata: {}\n\n', { headers: { 'content-type': 'text/event-stream' } });
    await expect(apply({ revert_to: 3 }, {}, { planned: () => {}, finished: () => {} })).rejects.toBeInstanceOf(Refusal);
    answer = () => new Response('event: problem\ndata: {"message":"stale"}\n\n', { headers: { 'content-type': 'text/event-stream' } });
    await expect(apply({ revert_to: 3 }, {}, { planned: () => {}, finished: () => {} })).rejects.toMatchObject({ problem: { message: 'stale' } });
  });

  it('deadlines_are_on_the_clock_of_the_agent', () => {
    const now = Date.parse('2026-01-01T00:00:00Z');
    vi.useFakeTimers({ now });
    noteClock('Thu, 01 Jan 2026 00:10:00 GMT', now);
    expect(Math.abs(agentNow() - now - 600_000)).toBeLessThan(1000);
    noteClock('Thu, 01 Jan 2026 00:00:01 GMT', now);
    expect(agentNow()).toBe(now);
    vi.useRealTimers();
  });
});
