import { describe, expect, it } from 'vitest';
import { causes, counts, merged, passes, sorted, titleOf, told, TOGETHER_LOOKS, TRUTH_LOOKS, turned, type Line } from './lines';

const json = (flow: string, status: string, more: object = {}): object => ({ namespace: 'shop', instance: null, flow, status, reason: '', message: '', ...more });
const all = (...lines: object[]): Map<string, Line> => merged(new Map(), told({ whole: true, complete: true, lines, gone: [] }));

describe('lines', () => {
  it('are_read_with_the_condition_that_decides_last_and_information_behind_it', () => {
    const conditions = [
      { type: 'PolicyReady', status: 'True', severity: 'Info' }, { type: 'Ready', status: 'False', reason: 'Unhealthy' },
      { type: 'SinkReady', status: 'False' }, { type: 'SourceReady', status: 'odd' },
    ];
    const [line] = [...all(json('f', 'Running', { conditions })).values()];
    expect(line?.conditions.map((each) => each.name)).toEqual(['SourceReady', 'SinkReady', 'Ready', 'PolicyReady']);
    expect(line?.conditions.map((each) => each.truth)).toEqual(['Unknown', 'False', 'False', 'True']);
  });

  it('that_differ_replace_those_before_and_what_is_gone_goes', () => {
    const known = all(json('a', 'Running'), json('b', 'Provisioning'));
    const news = told({ whole: false, complete: true, lines: [json('b', 'Running')], gone: [{ namespace: 'shop', instance: null, flow: 'a' }] });
    expect([...merged(known, news).values()].map((each) => [each.flow, each.together])).toEqual([['b', 'Running']]);
    expect(turned(known, news).map((each) => each.flow)).toEqual(['b']);
    expect(turned(known, told({ whole: true, lines: [json('b', 'Running')] }))).toEqual([]);
  });

  it('that_need_a_look_come_first', () => {
    const lines = sorted(all(json('a', 'Running'), json('d', 'Failed'), json('c', 'Failed'), json('b', 'Deprovisioning')).values());
    expect(lines.map(titleOf)).toEqual(['c', 'd', 'b', 'a']);
    expect(counts(lines)).toEqual({ Failed: 2, Provisioning: 0, Deprovisioning: 1, Running: 1 });
  });

  it('pass_a_filter_if_they_have_every_word', () => {
    const [line] = [...all(json('orders', 'Failed', { message: 'no pods' })).values()] as [Line];
    expect(passes(line, 'SHOP pods', '')).toBe(true);
    expect(passes(line, 'shop crm', '')).toBe(false);
    expect(passes(line, '', 'Running')).toBe(false);
  });

  it('are_never_told_by_colour_alone', () => {
    for (const looks of [TOGETHER_LOOKS, TRUTH_LOOKS]) {
      const glyphs = Object.values(looks).map((look) => look.glyph);
      expect(new Set(glyphs).size).toBe(glyphs.length);
    }
  });
});

describe('causes', () => {
  it('are_chains_whose_states_are_known', () => {
    expect(causes([[{ depth: 1, key: 'kube/channel/late', state: 'NONEXISTENT', why: 'nobody declares it' }], 'odd'])).toEqual([
      [{ depth: 1, key: 'kube/channel/late', state: 'NONEXISTENT', why: 'nobody declares it' }], [],
    ]);
  });
});
