import { describe, expect, it } from 'vitest';
import * as decode from '../wire/decode';
import { caughtUp, merged, Statuses } from './statuses';

const change = (statuses: unknown[], snapshot = false) => decode.statusesChanged({ snapshot, statuses });

describe('statuses', () => {
  it('a_snapshot_forgets_what_it_does_not_name', () => {
    const statuses = new Statuses();
    statuses.take(change([{ key: 'a', state: 'CONFIGURED' }, { key: 'b', state: 'CONFIGURED' }], true));
    const moved = statuses.take(change([{ key: 'b', state: 'PENDING' }], true));
    expect([...statuses.byKey.keys()]).toEqual(['b']);
    expect(moved).toEqual(new Set(['a', 'b']));
  });

  it('a_change_forgets_nothing_else', () => {
    const statuses = new Statuses();
    statuses.take(change([{ key: 'a', state: 'CONFIGURED' }], true));
    statuses.take(change([{ key: 'b', state: 'PENDING' }]));
    expect([...statuses.byKey.keys()]).toEqual(['a', 'b']);
  });

  it('what_is_gone_goes_with_what_it_derived', () => {
    const statuses = new Statuses();
    statuses.take(change([{ key: 'a', state: 'CONFIGURED', derived: [{ key: 'a/x', state: 'CONFIGURED' }] }], true));
    expect(statuses.byKey.has('a/x')).toBe(true);
    const moved = statuses.take(change([{ key: 'a', state: 'NONEXISTENT' }]));
    expect(statuses.byKey.size).toBe(0);
    expect(moved).toEqual(new Set(['a', 'a/x']));
  });

  it('what_a_base_derives_no_more_is_forgotten', () => {
    const statuses = new Statuses();
    statuses.take(change([{ key: 'a', state: 'CONFIGURED', derived: [{ key: 'a/x', state: 'CONFIGURED' }, { key: 'a/y', state: 'PENDING' }] }], true));
    statuses.take(change([{ key: 'a', state: 'CONFIGURED', derived: [{ key: 'a/y', state: 'PENDING' }] }]));
    expect([...statuses.byKey.keys()]).toEqual(['a', 'a/y']);
  });

  it('nothing_moves_when_nothing_changes', () => {
    const statuses = new Statuses();
    const same = change([{ key: 'a', state: 'CONFIGURED' }]);
    statuses.take(same);
    expect(statuses.take(same).size).toBe(0);
  });

  it('states_are_counted_with_what_needs_a_look_first', () => {
    const statuses = new Statuses();
    statuses.take(change([{ key: 'a', state: 'CONFIGURED' }, { key: 'b', state: 'FAILED' }, { key: 'c', state: 'CONFIGURED' }], true));
    expect(statuses.counts()).toEqual([['FAILED', 1], ['CONFIGURED', 2]]);
    expect(statuses.unsettled().map((status) => status.key)).toEqual(['b']);
  });
});

describe('merged', () => {
  it('lists_stay_in_order_take_the_newer_word_and_are_bounded', () => {
    const list = [{ seq: 1, word: 'a' }, { seq: 3, word: 'c' }];
    expect(merged(list, [{ seq: 2, word: 'b' }, { seq: 3, word: 'C' }])).toEqual([{ seq: 1, word: 'a' }, { seq: 2, word: 'b' }, { seq: 3, word: 'C' }]);
    expect(merged(list, [{ seq: 4, word: 'd' }], 2).map((each) => each.seq)).toEqual([3, 4]);
    expect(merged(list, [{ seq: 2, word: 'b' }], 2).map((each) => each.seq)).toEqual([2, 3]);
  });

  it('what_lies_before_a_hole_is_dropped_when_the_newest_are_read_again', () => {
    const seqs = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => ({ seq: from + index }));
    expect(caughtUp(seqs(1, 5), seqs(4, 8))).toEqual(seqs(1, 8));
    expect(caughtUp(seqs(1, 5), seqs(6, 8))).toEqual(seqs(1, 8));
    expect(caughtUp(seqs(1, 5), seqs(7, 8))).toEqual(seqs(7, 8));
    expect(caughtUp(seqs(1, 5), [])).toEqual(seqs(1, 5));
    expect(caughtUp([], seqs(7, 8))).toEqual(seqs(7, 8));
  });
});
