import { afterEach, describe, expect, it, vi } from 'vitest';
import * as decode from '../wire/decode';
import type { Status } from '../wire/types';
import { allItems, filtered } from './items.svelte';

const items = [
  { key: 'linux/link/a/eth0', kind: 'linux.link', state: 'CONFIGURED', declared_by: [{ source: 'lab' }] },
  { key: 'linux/up/a/eth0', kind: '', state: 'CONFIGURED', base: 'linux/link/a/eth0' },
  { key: 'linux/route/a/x', kind: 'linux.route', state: 'PENDING', unmet: ['linux/up/a/eth1'], declared_by: [{ source: 'page' }] },
].map(decode.item);
const all = { text: '', kind: '', state: '', source: '', derived: true };
const keys = (filter: Partial<typeof all>, statuses = new Map<string, Status>()) =>
  filtered(items, statuses, { ...all, ...filter }).map((row) => row.item.key.split('/')[1]);

describe('the list of items', () => {
  afterEach(() => vi.unstubAllGlobals());

  it('every_word_of_the_filter_must_occur', () => {
    expect(keys({ text: 'ETH0 link' })).toEqual(['link']);
    expect(keys({ text: 'eth0' })).toEqual(['link', 'up']);
  });

  it('kind_state_source_and_derived_filter_too', () => {
    expect(keys({ kind: 'property' })).toEqual(['up']);
    expect(keys({ state: 'PENDING' })).toEqual(['route']);
    expect(keys({ source: 'lab' })).toEqual(['link']);
    expect(keys({ derived: false })).toEqual(['link', 'route']);
  });

  it('the_watch_is_newer_than_the_list', () => {
    const statuses = new Map([['linux/link/a/eth0', decode.status({ key: 'linux/link/a/eth0', state: 'FAILED', error: 'no' })]]);
    expect(keys({ state: 'FAILED' }, statuses)).toEqual(['link']);
    expect(filtered(items, statuses, all)[0]?.why).toBe('no');
  });

  it('pages_are_read_to_the_end', async () => {
    const asked: string[] = [];
    vi.stubGlobal('sessionStorage', { getItem: () => null });
    vi.stubGlobal('fetch', async (url: string) => {
      asked.push(new URL(url, 'http://a').searchParams.get('after') ?? '');
      return new Response(JSON.stringify(asked.length < 3 ? { items: [{ key: `k${asked.length}` }], next: `k${asked.length}` } : { items: [{ key: 'k3' }] }));
    });
    const read = await allItems(new AbortController().signal);
    expect(read.map((item) => item.key)).toEqual(['k1', 'k2', 'k3']);
    expect(asked).toEqual(['', 'k1', 'k2']);
  });
});
