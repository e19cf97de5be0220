import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const css = readFileSync(new URL('./page.css', import.meta.url), 'utf8');
const colours = new Map([...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map((match) => [match[1] as string, [match[2] as string, match[3] as string]]));

/** How bright a colour is to the eye, as the accessibility guidelines count it. */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

describe('colours', () => {
  const tones = [...colours.keys()].filter((name) => /^tone-\w+$/.test(name));
  const pairs: [string, string][] = [
    ...['ground', 'raised', 'sunken'].flatMap((ground): [string, string][] => [['ink', ground], ['ink-quiet', ground]]),
    ...['ground', 'raised', 'accent-soft'].map((ground): [string, string] => ['accent', ground]),
    ['on-accent', 'accent'],
    ['unmet', 'ground'], ['unmet', 'raised'],
    ...tones.flatMap((tone): [string, string][] => [[tone, `${tone}-soft`], [tone, 'raised'], ['ink', `${tone}-soft`], ['ink-quiet', `${tone}-soft`]]),
  ];

  it('every_text_can_be_read_on_its_ground_in_both_themes', () => {
    expect(tones.length).toBeGreaterThan(8);
    const weak = pairs.flatMap(([text, ground]) =>
      [0, 1].flatMap((theme) => {
        const found = contrast((colours.get(text) as string[])[theme] as string, (colours.get(ground) as string[])[theme] as string);
        return found < 4.5 ? [`${text} on ${ground} (${theme ? 'dark' : 'light'}): ${found.toFixed(2)}`] : [];
      }),
    );
    expect(weak).toEqual([]);
  });

  it('lines_that_carry_meaning_are_seen', () => {
    for (const line of ['gold', 'bond', 'derived', 'unmet']) {
      for (const theme of [0, 1]) expect(contrast((colours.get(line) as string[])[theme] as string, (colours.get('ground') as string[])[theme] as string), line).toBeGreaterThanOrEqual(3);
    }
  });
});
