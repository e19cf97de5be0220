// The colours of the page as the canvas needs them: read once per theme from the same custom properties as all else.
import type { Look } from '../format/states';
import type { Mark } from './model';

type Tone = Look['tone'];

export interface Palette {
  ink: string;
  quiet: string;
  ground: string;
  raised: string;
  line: string;
  bond: string;
  derived: string;
  unmet: string;
  accent: string;
  gold: string;
  font: string;
  tones: Record<Tone, { line: string; soft: string }>;
  marks: Record<Mark, string>;
}

const TONES: Tone[] = ['good', 'given', 'found', 'wait', 'bad', 'refused', 'again', 'busy', 'gone', 'odd'];

export function paletteOf(element: HTMLElement): Palette {
  const probe = document.createElement('span');
  probe.hidden = true;
  element.append(probe);
  const colour = (name: string): string => {
    probe.style.setProperty('color', `var(--${name})`);
    return getComputedStyle(probe).color;
  };
  const tones = Object.fromEntries(
    TONES.map((tone) => [tone, { line: colour(`tone-${tone}`), soft: colour(`tone-${tone}-soft`) }]),
  ) as Palette['tones'];
  const palette: Palette = {
    ink: colour('ink'), quiet: colour('ink-quiet'), ground: colour('ground'), raised: colour('raised'),
    line: colour('line'), bond: colour('bond'), derived: colour('derived'), unmet: colour('unmet'),
    accent: colour('accent'), gold: colour('gold'), font: getComputedStyle(element).fontFamily, tones,
    marks: { added: colour('tone-good'), removed: colour('tone-bad'), changed: colour('tone-again') },
  };
  probe.remove();
  return palette;
}
