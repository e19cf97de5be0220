// Where the reader is, and how they like the page: route, theme, time of day, keys.
import { link, parse, type Route, type View } from '../format/route';

const THEME = 'kilter.theme';
const KEYS = 'kilter.keys';
export type Theme = 'auto' | 'light' | 'dark';

const kept = (name: string): string | null => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
};

const keep = (name: string, value: string): void => {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A browser that keeps nothing still shows the page.
  }
};

class Page {
  route = $state.raw<Route>(parse(location.hash));
  theme = $state<Theme>((kept(THEME) as Theme | null) ?? 'auto');
  /** Whether single keys are shortcuts. */
  keys = $state(kept(KEYS) !== 'off');
  /** Rises when colours change. */
  colours = $state(0);
  /** What the graph shall bring into view. */
  wanted = $state.raw<{ key: string } | undefined>(undefined);
  /** Our clock, once per second. */
  now = $state(Date.now());

  start(): void {
    addEventListener('hashchange', () => { this.route = parse(location.hash); });
    setInterval(() => { this.now = Date.now(); }, 1000);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { this.colours += 1; });
    this.#dress();
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    keep(THEME, theme);
    this.#dress();
    this.colours += 1;
  }

  setKeys(on: boolean): void {
    this.keys = on;
    keep(KEYS, on ? 'on' : 'off');
  }

  #dress(): void {
    document.documentElement.dataset['theme'] = this.theme;
  }
}

export const page = new Page();

/** Goes to a view. */
export function go(view: View, subject: string | number = '', query: Record<string, string | number | undefined> = {}): void {
  location.hash = link(view, subject, query);
}

/** Changes the query of the view that is shown, without a step in the browser's history. */
export function requery(change: Record<string, string | number | undefined>): void {
  const { view, subject, query } = page.route;
  const next = link(view, subject, { ...query, ...change });
  history.replaceState(null, '', next);
  page.route = parse(next);
}
