// All items, page by page, for the list. Decided here: how they are read (a thousand at a time), and how they are
// filtered. States come from the watch, which is newer than any page.
import * as decode from '../wire/decode';
import { get } from '../wire/client';
import type { Item, State, Status } from '../wire/types';

const PAGE = 1000;

export async function allItems(signal: AbortSignal): Promise<Item[]> {
  const items: Item[] = [];
  let after = '';
  for (;;) {
    const page = await get('/items', decode.items, { derived: true, observed: true, limit: PAGE, after }, signal);
    items.push(...page.items);
    if (!page.next || page.next === after) return items;
    after = page.next;
  }
}

export interface Filter { text: string; kind: string; state: string; source: string; derived: boolean }

/** The items that pass, each with the state it is in. */
export function filtered(items: Item[], statuses: Map<string, Status>, filter: Filter): { item: Item; state: State; why: string }[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const passed: { item: Item; state: State; why: string }[] = [];
  for (const item of items) {
    const status = statuses.get(item.key);
    const state = status?.state ?? item.state;
    if (!filter.derived && item.base) continue;
    if (filter.kind && (item.kind || 'property') !== filter.kind) continue;
    if (filter.state && state !== filter.state) continue;
    if (filter.source && !item.declaredBy.some((by) => by.source === filter.source)) continue;
    const key = item.key.toLowerCase();
    if (!words.every((word) => key.includes(word))) continue;
    passed.push({ item, state, why: status?.why || status?.error || item.error || (item.unmet.length ? `needs ${item.unmet.join(', ')}` : '') });
  }
  return passed;
}
