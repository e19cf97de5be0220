// Server-sent events as text. Decided here: how bytes become events, as the HTML standard describes, in any pieces
// in which they arrive. What is not decided: where they come from and what they mean.

export interface SentEvent { name: string; text: string; id: string }

/** Reads server-sent events out of pieces of text that end anywhere. */
export class EventReader {
  /** The last `id:` that was seen; where a new connection goes on. */
  lastId = '';
  /** How long to wait before connecting again, if the server said so, in milliseconds. */
  retry: number | undefined;
  #rest = '';
  #name = '';
  #lines: string[] = [];
  #id: string | undefined;
  #afterReturn = false;

  push(piece: string): SentEvent[] {
    const events: SentEvent[] = [];
    let text = this.#rest + piece;
    if (this.#afterReturn && text.startsWith('\n')) text = text.slice(1);
    this.#afterReturn = text.endsWith('\r');
    const lines = text.split(/\r\n|\r|\n/);
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      const event = this.#line(line);
      if (event) events.push(event);
    }
    return events;
  }

  #line(line: string): SentEvent | undefined {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1));
    if (field === 'event') this.#name = value;
    else if (field === 'data') this.#lines.push(value);
    else if (field === 'id' && !value.includes('\0')) this.#id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) this.retry = Number(value);
    return undefined;
  }

  #dispatch(): SentEvent | undefined {
    if (this.#id !== undefined) this.lastId = this.#id;
    const event = { name: this.#name || 'message', text: this.#lines.join('\n'), id: this.lastId };
    const something = this.#lines.length > 0;
    this.#name = '';
    this.#lines = [];
    this.#id = undefined;
    return something ? event : undefined;
  }
}
