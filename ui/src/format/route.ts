// Addresses inside the page, behind the `#`. Decided here: which views there are and how each is spelt.

export const VIEWS = ['graph', 'items', 'item', 'transactions', 'transaction', 'events', 'drift', 'plan'] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  view: View;
  /** What follows the view: a key or a seq. */
  subject: string;
  query: Record<string, string>;
}

/** Reads an address; one that is not known is the graph. */
export function parse(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [first = '', ...rest] = path.split('/');
  const query = Object.fromEntries(new URLSearchParams(search));
  if (!(VIEWS as readonly string[]).includes(first)) return { view: 'graph', subject: '', query: {} };
  return { view: first as View, subject: rest.map(decoded).join('/'), query };
}

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

/** Writes an address. */
export function link(view: View, subject: string | number = '', query: Record<string, string | number | undefined> = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  const path = String(subject).split('/').map(encodeURIComponent).join('/');
  return `#/${view}${path ? `/${path}` : ''}${search ? `?${search}` : ''}`;
}
