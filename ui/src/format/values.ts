// Values side by side. Decided here: how a value becomes lines of `path: content`, and when two lines differ.
import type { Json } from '../wire/types';

export interface Row {
  path: string;
  declared: string | undefined;
  actual: string | undefined;
  /** `left` is what is there and nobody asked for: the kind leaves it as it is. */
  word: 'same' | 'differs' | 'lacking' | 'left';
}

const isPlain = (value: Json): boolean => value === null || typeof value !== 'object';

/** The lines of a value: a list of plain values is one line, everything else goes down to its leaves. */
export function lines(value: Json | undefined): Map<string, string> {
  const found = new Map<string, string>();
  const work: [string, Json][] = value === undefined ? [] : [['', value]];
  while (work.length > 0) {
    const [path, next] = work.pop() as [string, Json];
    if (next === null || typeof next !== 'object') {
      found.set(path, typeof next === 'string' ? next : JSON.stringify(next));
    } else if (Array.isArray(next) && next.every(isPlain)) {
      found.set(path, next.length === 0 ? '[]' : next.map((each) => (typeof each === 'string' ? each : JSON.stringify(each))).join(', '));
    } else {
      const inner = Array.isArray(next)
        ? next.map((each, index): [string, Json] => [`${path}[${index}]`, each])
        : Object.entries(next).map(([field, each]): [string, Json] => [path ? `${path}.${field}` : field, each]);
      if (inner.length === 0) found.set(path, '{}');
      work.push(...inner.reverse());
    }
  }
  return found;
}

/** Declared and actual line by line, in the order of the declaration. */
export function compare(declared: Json | undefined, actual: Json | undefined): Row[] {
  const asked = lines(declared);
  const there = lines(actual);
  const rows: Row[] = [];
  for (const [path, text] of asked) {
    const other = there.get(path);
    const word = other === undefined ? 'lacking' : other === text ? 'same' : 'differs';
    rows.push({ path, declared: text, actual: other, word: actual === undefined ? 'lacking' : word });
  }
  for (const [path, text] of there) {
    if (!asked.has(path)) rows.push({ path, declared: undefined, actual: text, word: 'left' });
  }
  return rows;
}

/** The paths at which two values differ. */
export function changedPaths(before: Json | undefined, after: Json | undefined): string[] {
  const [one, other] = [lines(before), lines(after)];
  const paths = new Set([...one.keys(), ...other.keys()]);
  return [...paths].filter((path) => one.get(path) !== other.get(path));
}

/** So many characters of a text, with the middle left out. */
export function shortened(text: string, kept: number): string {
  if (kept >= text.length) return text;
  const front = Math.ceil(kept * 0.4);
  return `${text.slice(0, front)}…${text.slice(text.length - (kept - front))}`;
}
