// A need as the agent writes it: a key, `no KEY`, or `any PREFIX* or PREFIX* that match`.

export interface Need {
  text: string;
  /** The one key it is about; empty for any of many. */
  key: string;
  /** What the keys that would do begin with. */
  prefixes: string[];
  /** Whether the key must not be there. */
  absent: boolean;
}

export function needOf(text: string): Need {
  if (text.startsWith('any ')) {
    const prefixes = [...text.matchAll(/(?:^any | or )(\S*)\*/g)].map((match) => match[1] as string);
    if (prefixes.length > 0) return { text, key: '', prefixes, absent: false };
  }
  if (text.startsWith('no ')) return { text, key: text.slice(3), prefixes: [], absent: true };
  return { text, key: text, prefixes: [], absent: false };
}

/** A text in parts: what stands between backticks is said by name. */
export function quoted(text: string): { text: string; name: boolean }[] {
  return text
    .split(/`([^`]+)`/)
    .map((part, index) => ({ text: part, name: index % 2 === 1 }))
    .filter((part) => part.text !== '');
}
