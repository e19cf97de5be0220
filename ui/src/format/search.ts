// Search among keys. Decided here: what matches, and which match comes first.

/** How well a key fits: lower is better; undefined if it does not. Every word must occur. */
export function fit(key: string, words: string[]): number | undefined {
  const lower = key.toLowerCase();
  let cost = key.length / 1000;
  for (const word of words) {
    const at = lower.lastIndexOf(word);
    if (at < 0) return undefined;
    const before = lower[at - 1];
    const after = lower[at + word.length];
    const begins = before === undefined || before === '/';
    const ends = after === undefined || after === '/';
    cost += begins && ends ? 0 : begins ? 1 : 2;
  }
  return cost;
}

/** The keys that fit best. */
export function suggest(keys: Iterable<string>, text: string, most = 8): string[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const found: [number, string][] = [];
  for (const key of keys) {
    const cost = fit(key, words);
    if (cost !== undefined) found.push([cost, key]);
  }
  return found.sort((one, other) => one[0] - other[0] || (one[1] < other[1] ? -1 : 1)).slice(0, most).map(([, key]) => key);
}
