import { describe, expect, it } from 'vitest';
import * as decode from './decode';

describe('decoding', () => {
  it('absent_null_and_wrong_fields_count_as_empty', () => {
    const empty = decode.item({});
    expect(decode.item({ key: null, needs: 'x', declared: null, declared_by: {} })).toEqual(empty);
    expect(decode.item(undefined)).toEqual(empty);
    expect(empty.state).toBe('NONEXISTENT');
  });

  it('words_are_one_way_however_they_are_spelt', () => {
    for (const spelt of ['revert_failed', 'revert failed', 'OUTCOME_REVERT_FAILED', 'revert-failed']) expect(decode.outcome(spelt)).toBe('revert failed');
    for (const spelt of ['PENDING', 'STATE_PENDING', 'pending']) expect(decode.state(spelt)).toBe('PENDING');
    expect(decode.step({ action: 'ACTION_CREATE' }).action).toBe('create');
    expect(decode.graph({ edges: [{ edge_type: 'EDGE_DERIVED' }, { edge_type: 'needs' }] }).edges.map((edge) => edge.type)).toEqual(['derived', 'needs']);
  });

  it('numbers_may_come_as_texts', () => {
    expect(decode.summary({ seq: '12' }).seq).toBe(12);
  });

  it('a_value_of_false_or_zero_is_a_value', () => {
    expect(decode.item({ declared: 0, actual: false })).toMatchObject({ declared: 0, actual: false });
  });

  it('no_confirmation_is_none', () => {
    expect(decode.confirmation({ confirmation: null })).toBeUndefined();
    expect(decode.confirmation({})).toBeUndefined();
    expect(decode.confirmation({ confirmation: { id: 'a', txn: 4 } })).toMatchObject({ id: 'a', txn: 4 });
  });

  it('a_plan_may_stand_inside_its_reply', () => {
    expect(decode.plan({ plan: { hash: 'h' } }).hash).toBe('h');
    expect(decode.plan({ hash: 'h' }).hash).toBe('h');
  });

  it('a_problem_says_something_whatever_it_has', () => {
    expect(decode.problem({ detail: 'd' }, 500)).toMatchObject({ message: 'd', status: 500 });
    expect(decode.problem({ title: 't', message: 'm', misplaced: [{ place: { file: 'a', line: 3 }, message: 'x' }] }).misplaced[0]?.place.line).toBe(3);
  });

  it('an_event_that_follows_from_the_first_one_says_so', () => {
    expect(decode.event({ follow_up_to: 0 }).followUpTo).toBe(0);
    expect(decode.event({}).followUpTo).toBeUndefined();
  });
});
