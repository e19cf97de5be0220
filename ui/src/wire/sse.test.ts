import { describe, expect, it } from 'vitest';
import { EventReader } from './sse';

const read = (...pieces: string[]) => {
  const reader = new EventReader();
  return { events: pieces.flatMap((piece) => reader.push(piece)), reader };
};

describe('events as text', () => {
  it('an_event_has_a_name_a_text_and_an_id', () => {
    const { events } = read('id: 7\nevent: statuses\ndata: {"a":1}\n\n');
    expect(events).toEqual([{ name: 'statuses', text: '{"a":1}', id: '7' }]);
  });

  it('pieces_may_end_anywhere', () => {
    const whole = 'id: 7\r\nevent: statuses\r\ndata: one\r\ndata: two\r\n\r\nid: 8\ndata: three\n\n';
    const expected = read(whole).events;
    expect(expected).toHaveLength(2);
    for (let cut = 1; cut < whole.length; cut += 1) {
      expect(read(whole.slice(0, cut), whole.slice(cut)).events, `cut at ${cut}`).toEqual(expected);
    }
    expect(read(...whole).events).toEqual(expected);
  });

  it('a_comment_is_no_event_and_moves_no_cursor', () => {
    const { events, reader } = read('id: 7\ndata: x\n\n', ': still here\n\n');
    expect(events).toHaveLength(1);
    expect(reader.lastId).toBe('7');
  });

  it('an_id_counts_only_once_its_event_is_complete', () => {
    const { reader } = read('id: 7\ndata: x\n\nid: 8\ndata: half');
    expect(reader.lastId).toBe('7');
  });

  it('an_event_without_an_id_keeps_the_one_before', () => {
    const { events } = read('id: 7\ndata: x\n\nevent: transaction\ndata: y\n\n');
    expect(events.map((event) => event.id)).toEqual(['7', '7']);
  });

  it('the_server_may_say_how_long_to_wait', () => {
    expect(read('retry: 2500\n\n').reader.retry).toBe(2500);
    expect(read('retry: soon\n\n').reader.retry).toBeUndefined();
  });
});
