import { describe, expect, it } from 'vitest';
import * as decode from '../wire/decode';
import { STATES, type Step } from '../wire/types';
import { forest, heals, isHealing } from './events';
import { needOf, quoted } from './needs';
import { link, parse } from './route';
import { suggest } from './search';
import { LOOKS } from './states';
import { blastOf, blastSize, comparePlan, counted } from './steps';
import { ago, between, countdown, instant, number, plural, span, spoken } from './time';
import { changedPaths, compare } from './values';
import { titled } from './words';

describe('words', () => {
  it('a_description_of_several_lines_has_a_title_and_points', () => {
    expect(titled('Observed\n* linux/link/a/lo {"mtu":1}\n* linux/netns/b is gone')).toEqual({ title: 'Observed', more: 'linux/link/a/lo, linux/netns/b is gone' });
    expect(titled('')).toEqual({ title: '', more: '' });
  });
});

describe('time', () => {
  it('nanoseconds_are_read', () => {
    expect(instant('2026-01-21T11:29:27.794325984Z')).toBe(Date.parse('2026-01-21T11:29:27.794Z'));
    expect(between('2026-01-21T11:29:27.794325984Z', '2026-01-21T11:29:28.094325984Z')).toBe('300 ms');
  });

  it('a_countdown_never_shows_nothing_left_before_the_end', () => {
    expect([120_000, 119_001, 61_000, 1, 0, -5000].map(countdown)).toEqual(['2:00', '2:00', '1:01', '0:01', '0:00', '0:00']);
    expect(countdown(3_661_000)).toBe('1:01:01');
  });

  it('spans_are_rough', () => {
    expect([0.2, 12, 3200, 240_000, 7_200_000, 4 * 86_400_000].map(span)).toEqual(['< 1 ms', '12 ms', '3.2 s', '4 min', '2 h', '4 days']);
    expect(span(Number.NaN)).toBe('');
    expect(spoken(121_000)).toBe('2 minutes 1 second');
    expect(spoken(0)).toBe('0 seconds');
  });

  it('counts_are_read_at_a_glance', () => {
    expect(plural(1, 'item')).toBe('1 item');
    expect(plural(2, 'vertex', 'vertices')).toBe('2 vertices');
    expect(number(1234567)).toBe('1\u202f234\u202f567');
    expect(ago(1000, 3000)).toBe('just now');
    expect(ago(0, 42_000)).toBe('42 s ago');
  });
});

describe('states', () => {
  it('no_two_states_look_the_same_without_colours', () => {
    const looks = STATES.map((state) => `${LOOKS[state].glyph} ${LOOKS[state].dash.join()}`);
    expect(new Set(looks).size).toBe(STATES.length);
  });
});

describe('values', () => {
  it('differences_are_found_by_field', () => {
    const rows = compare({ mtu: 1400, peer: { name: 'a' }, addresses: ['x', 'y'] }, { mtu: 1500, peer: { name: 'a' }, addresses: ['x', 'y'], qlen: 5 });
    expect(rows.map((row) => [row.path, row.word])).toEqual([['mtu', 'differs'], ['peer.name', 'same'], ['addresses', 'same'], ['qlen', 'left']]);
  });

  it('what_is_not_there_lacks_everything', () => {
    expect(compare({ a: 1, b: [] }, undefined).map((row) => row.word)).toEqual(['lacking', 'lacking']);
  });

  it('a_text_is_not_the_number_it_looks_like_inside_a_list_of_things', () => {
    expect(changedPaths({ rules: [{ a: 1 }, { a: 2 }] }, { rules: [{ a: 1 }, { a: 3 }] })).toEqual(['rules[1].a']);
  });

  it('deep_values_do_not_exhaust_the_stack', () => {
    let deep: unknown = 1;
    for (let depth = 0; depth < 20_000; depth += 1) deep = { a: deep };
    expect(changedPaths(deep as never, deep as never)).toEqual([]);
  });
});

const step = (action: string, key: string, more: object = {}): Step => decode.step({ action, key, ...more });

describe('steps', () => {
  it('a_blast_radius_is_told_from_the_steps', () => {
    const blast = blastOf([
      step('delete', 'route', { after: { state: 'PENDING' } }),
      step('delete', 'tap', { recreate: true, recreate_reason: 'rx-ring 256 → 512' }),
      step('delete', 'old', { after: { state: 'REMOVED' } }),
      step('create', 'tap', { recreate: true }),
      step('create', 'route', { before: { state: 'PENDING' } }),
      step('create', 'waited', { before: { state: 'PENDING' } }),
    ]);
    expect(blast.recreated).toEqual([{ key: 'tap', why: 'rx-ring 256 → 512', returns: true }]);
    expect(blast.losing).toEqual([{ key: 'route', why: '', returns: true }]);
    expect(blast.removed).toEqual(['old']);
    expect(blast.gaining).toEqual(['waited']);
  });

  it('what_a_transaction_made_and_took_back_was_not_there_to_be_disturbed', () => {
    const blast = blastOf([step('create', 'new'), step('create', 'bad', { error: 'no' }), step('delete', 'new', { revert: true, after: { state: 'REMOVED' } })]);
    expect(blastSize(blast)).toBe(0);
  });

  it('an_item_that_is_disturbed_in_two_ways_is_one', () => {
    const link = { key: 'tap', why: '', returns: true };
    expect(blastSize({ recreated: [link], removed: ['old'], linksDown: [link], losing: [], gaining: ['waited'] })).toBe(2);
  });

  it('what_was_carried_out_is_compared_with_the_plan', () => {
    const compared = comparePlan([step('create', 'a'), step('create', 'b'), step('create', 'c')], [step('create', 'a'), step('create', 'b', { error: 'no' }), step('delete', 'a')]);
    expect(compared.map(({ step: each, word }) => [each.action, each.key, word])).toEqual([
      ['create', 'a', 'planned'], ['create', 'b', 'planned'], ['delete', 'a', 'unplanned'], ['create', 'c', 'left out'],
    ]);
  });

  it('quiet_steps_are_not_counted', () => {
    expect(counted([step('create', 'a'), step('settle', 'b', { quiet: true }), step('create', 'c')])).toEqual([['create', 2]]);
  });
});

describe('events', () => {
  const event = (seq: number, followUpTo?: number) => decode.event({ seq, name: `e${seq}`, ...(followUpTo === undefined ? {} : { follow_up_to: followUpTo }) });

  it('follow_ups_stand_under_what_they_follow_from_newest_first', () => {
    const branches = forest([event(0), event(1, 0), event(2, 1), event(3), event(4, 0)]);
    expect(branches.map((branch) => [branch.event.seq, branch.depth])).toEqual([[3, 0], [0, 0], [1, 1], [2, 2], [4, 1]]);
  });

  it('a_follow_up_of_something_forgotten_stands_alone', () => {
    expect(forest([event(7, 3)])).toMatchObject([{ depth: 0 }]);
  });

  it('healing_is_told_from_other_work', () => {
    expect(isHealing(decode.event({ name: 'Healing Resync (After Error)' }))).toBe(true);
    expect(isHealing(decode.event({ name: 'External Change [lab]' }))).toBe(false);
    expect(heals(decode.summary({ txn_type: 'refresh' }))).toBe(true);
    expect(heals(decode.summary({ txn_type: 'declared changes' }))).toBe(false);
  });
});

describe('addresses', () => {
  it('an_address_reads_back_as_what_was_written', () => {
    const written = link('item', 'linux/route/a b/main/::/0?#%', { at: 12, none: undefined });
    expect(parse(written)).toEqual({ view: 'item', subject: 'linux/route/a b/main/::/0?#%', query: { at: '12' } });
  });

  it('an_unknown_address_is_the_graph', () => {
    expect(parse('#/nowhere/at/all?x=1')).toEqual({ view: 'graph', subject: '', query: {} });
    expect(parse('')).toMatchObject({ view: 'graph' });
    expect(parse('#/item/%zz').subject).toBe('%zz');
  });
});

describe('search', () => {
  const keys = ['linux/link/left/eth0', 'linux/address/left/eth0/10.1.0.2/24', 'linux/link/right/eth0', 'linux/route/left/main/0.0.0.0/0'];

  it('whole_parts_come_before_pieces_and_short_before_long', () => {
    expect(suggest(keys, 'left eth0')).toEqual(['linux/link/left/eth0', 'linux/address/left/eth0/10.1.0.2/24']);
    expect(suggest(keys, 'ROUTE')).toEqual(['linux/route/left/main/0.0.0.0/0']);
    expect(suggest(keys, '')).toEqual([]);
    expect(suggest(keys, 'eth', 1)).toHaveLength(1);
  });
});

describe('needs', () => {
  it('a_need_is_a_key_the_lack_of_one_or_any_of_many', () => {
    expect(needOf('linux/link/a/b')).toMatchObject({ key: 'linux/link/a/b', absent: false, prefixes: [] });
    expect(needOf('no linux/link/a/b')).toMatchObject({ key: 'linux/link/a/b', absent: true });
    expect(needOf('any linux/address/a/b/* or linux/reach/a/b/* containing 10.50.0.1').prefixes).toEqual(['linux/address/a/b/', 'linux/reach/a/b/']);
    expect(needOf('any')).toMatchObject({ key: 'any' });
  });

  it('what_is_quoted_is_set_apart', () => {
    expect(quoted('declare `a/b`, or else')).toEqual([{ text: 'declare ', name: false }, { text: 'a/b', name: true }, { text: ', or else', name: false }]);
    expect(quoted('it`s')).toEqual([{ text: 'it`s', name: false }]);
  });
});
