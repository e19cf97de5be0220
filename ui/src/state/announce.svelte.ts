// What a screen reader is told without moving there, and what everybody sees for a few seconds.
import { untrack } from 'svelte';

class Announcements {
  polite = $state('');
  assertive = $state('');
}

export const announcements = new Announcements();

/** Says something; the same words twice are said twice. */
export function announce(text: string, manner: 'polite' | 'assertive' = 'polite'): void {
  // Whoever says something must not be told of it.
  const said = untrack(() => announcements[manner]);
  announcements[manner] = said === text ? `${text}\u00a0` : text;
}
