// Where the reader of the page of flows is: the list with its filter, or one line. Decided here: how both are spelt.

export interface Place { namespace: string; name: string; typed: string; together: string }

/** Reads an address: `#/?text=…&status=…`, or `#/NAMESPACE/NAME`. */
export function parse(hash: string): Place {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [namespace = '', name = ''] = path.split('/').map(decoded);
  const query = new URLSearchParams(search);
  return { namespace, name, typed: query.get('text') ?? '', together: query.get('status') ?? '' };
}

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

export const linkTo = (namespace: string, name: string): string => `#/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

class Here {
  at = $state.raw<Place>(parse(location.hash));
  /** The address of the list as it was last seen. */
  list = $state('#/');

  start(): void {
    addEventListener('hashchange', () => { this.at = parse(location.hash); });
  }

  /** Changes the filter, without a step in the browser's history. */
  filter(typed: string, together: string): void {
    const query = new URLSearchParams([...(typed ? [['text', typed]] : []), ...(together ? [['status', together]] : [])] as [string, string][]).toString();
    this.list = `#/${query ? `?${query}` : ''}`;
    history.replaceState(null, '', this.list);
    this.at = parse(this.list);
  }
}

export const place = new Here();
