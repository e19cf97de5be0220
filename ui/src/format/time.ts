// Moments and spans as people read them.

const two = (number: number): string => String(number).padStart(2, '0');

/** The moment in milliseconds, or NaN. The agent writes nanoseconds; the page needs no more than milliseconds. */
export const instant = (moment: string): number => Date.parse(moment.replace(/(\.\d{3})\d+/, '$1'));

/** The time of day, in the time zone of whoever looks. */
export function clock(moment: string | number): string {
  const date = new Date(typeof moment === 'number' ? moment : instant(moment));
  if (Number.isNaN(date.getTime())) return '';
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The day and time of day. */
export function dayClock(moment: string): string {
  const date = new Date(instant(moment));
  if (Number.isNaN(date.getTime())) return '';
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(moment)}`;
}

/** About how long: `740 µs`, `12 ms`, `3.2 s`, `4 min`. */
export function span(milliseconds: number): string {
  if (!Number.isFinite(milliseconds) || milliseconds < 0) return '';
  if (milliseconds < 1) return '< 1 ms';
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  if (milliseconds < 3_600_000) return `${Math.floor(milliseconds / 60_000)} min`;
  if (milliseconds < 48 * 3_600_000) return `${Math.floor(milliseconds / 3_600_000)} h`;
  return `${Math.floor(milliseconds / 86_400_000)} days`;
}

export const between = (start: string, stop: string): string => span(instant(stop) - instant(start));

/** How long ago, on the clock given. */
export function ago(moment: string | number, now: number): string {
  const past = now - (typeof moment === 'number' ? moment : instant(moment));
  if (Number.isNaN(past)) return '';
  return past < 5000 ? 'just now' : `${past < 60_000 ? `${Math.floor(past / 1000)} s` : span(past)} ago`;
}

/** What is left of a countdown: `1:59`; never below `0:00`, and `0:01` until the last moment. */
export function countdown(milliseconds: number): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  const hours = Math.floor(seconds / 3600);
  const rest = `${hours ? two(Math.floor(seconds / 60) % 60) : Math.floor(seconds / 60)}:${two(seconds % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

/** The same for a screen reader. */
export function spoken(milliseconds: number): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  const minutes = Math.floor(seconds / 60);
  const parts = [minutes ? plural(minutes, 'minute') : '', seconds % 60 || !minutes ? plural(seconds % 60, 'second') : ''];
  return parts.filter(Boolean).join(' ');
}

/** `1 item`, `2 items`. */
export const plural = (count: number, one: string, many = `${one}s`): string => `${number(count)} ${count === 1 ? one : many}`;

/** A count with thin spaces between thousands. */
export const number = (count: number): string => String(count).replaceAll(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
