import { describe, expect, it } from 'vitest';
import * as decode from '../wire/decode';
import type { Graph } from '../wire/types';
import { centred, fitted, panned, toScreen, toWorld, towards, zoomed, SCALES } from './camera';
import { around, serves, type Kept } from './layer';
import { LAYERED, layout } from './layout';
import { focused, marksOf, nameOf, part, sameShape, sceneOf, union } from './model';
import { shortened } from '../format/values';
import { shapeOf } from './place';

const graph = (keys: string[], edges: [string, string, boolean?, string?][] = []): Graph =>
  decode.graph({
    vertices: keys.map((key) => ({ key, kind: 'k', state: 'CONFIGURED' })),
    edges: edges.map(([from, to, met = true, edge_type = 'needs']) => ({ from, to, met, edge_type })),
  });

describe('the scene', () => {
  it('an_unmet_need_becomes_a_ghost_once', () => {
    const scene = sceneOf(graph(['a', 'b'], [['a', 'x', false], ['b', 'x', false]]));
    expect(scene.nodes.filter((node) => node.ghost).map((node) => node.key)).toEqual(['x']);
    expect(scene.bonds.map((bond) => [bond.from, bond.to, bond.met])).toEqual([[0, 2, false], [1, 2, false]]);
  });

  it('a_need_of_any_of_a_prefix_leads_to_its_members', () => {
    const scene = sceneOf(graph(['a', 'p/1', 'p/2', 'q'], [['a', 'any p/* or q* containing 10.0.0.1', true]]));
    expect(scene.bonds.map((bond) => [scene.nodes[bond.to]?.key, bond.any])).toEqual([['p/1', true], ['p/2', true], ['q', true]]);
    const waiting = sceneOf(graph(['a', 'p/1'], [['a', 'any p/* containing 10.0.0.1', false]]));
    expect(waiting.nodes[2]).toMatchObject({ key: 'any p/* containing 10.0.0.1', ghost: true });
  });

  it('what_must_not_be_there_and_is_stands_in_the_way', () => {
    const scene = sceneOf(graph(['a', 'b'], [['a', 'no b', false]]));
    expect(scene.bonds).toMatchObject([{ from: 0, to: 1, met: false }]);
    expect(scene.nodes).toHaveLength(2);
  });

  it('a_need_that_follows_from_others_is_implied_unless_it_is_unmet', () => {
    const implied = (edges: [string, string, boolean?, string?][]): string[] => {
      const scene = sceneOf(graph(['netns', 'link', 'up', 'route'], edges));
      return scene.bonds.filter((bond) => bond.implied).map((bond) => `${scene.nodes[bond.from]?.key} ${scene.nodes[bond.to]?.key} ${bond.type}`);
    };
    const chain: [string, string, boolean?, string?][] = [['link', 'netns'], ['up', 'link', true, 'derived'], ['up', 'link'], ['route', 'up']];
    expect(implied([...chain, ['route', 'netns']])).toEqual(['up link needs', 'route netns needs']);
    expect(implied([...chain, ['route', 'netns', false]])).toEqual(['up link needs']);
    // Two that need each other do not make each other's bonds go away.
    expect(implied([['link', 'up'], ['up', 'link'], ['link', 'netns'], ['up', 'netns']])).toEqual([]);
    // Where what lies between is not drawn, nothing follows from it.
    const scene = sceneOf(graph(['link', 'netns', 'route'], [['link', 'netns'], ['route', 'link'], ['route', 'netns']]));
    expect(scene.bonds.map((bond) => bond.implied)).toEqual([false, false, true]);
    expect(part(scene, (index) => index > 0).bonds.map((bond) => bond.implied)).toEqual([false]);
  });

  it('names_leave_out_what_the_kind_says', () => {
    expect(nameOf('linux/address/left/eth0/10.0.0.1/24', 'linux.address')).toBe('left/eth0/10.0.0.1/24');
    expect(nameOf('tap/a', 'other')).toBe('tap/a');
    expect(nameOf('linux/link/left/eth0', 'linux.interface')).toBe('left/eth0');
  });

  it('a_focus_keeps_what_is_near_in_both_directions', () => {
    const scene = sceneOf(graph(['a', 'b', 'c', 'd'], [['a', 'b'], ['b', 'c'], ['c', 'd']]));
    expect(focused(scene, 'b', 1).nodes.map((node) => node.key)).toEqual(['a', 'b', 'c']);
    expect(focused(scene, 'b', 2).nodes).toHaveLength(4);
    expect(focused(scene, 'b', 1).bonds).toHaveLength(2);
    expect(focused(scene, 'nowhere', 3).nodes).toEqual([]);
  });

  it('a_part_keeps_the_bonds_inside_it', () => {
    const scene = part(sceneOf(graph(['a', 'b', 'c'], [['a', 'b'], ['b', 'c']])), (index) => index > 0);
    expect(scene.bonds).toMatchObject([{ from: 0, to: 1 }]);
    expect(scene.byKey.get('c')).toBe(1);
  });

  it('what_is_there_at_both_moments_has_the_needs_of_the_second', () => {
    const first = graph(['a', 'b', 'old'], [['a', 'b'], ['old', 'b'], ['b', 'x', false]]);
    const both = union(first, graph(['a', 'b', 'c'], [['a', 'c'], ['c', 'y', false]]));
    expect(both.edges.map((edge) => [edge.from, edge.to, edge.met])).toEqual([['a', 'c', true], ['c', 'y', false], ['old', 'b', true]]);
  });

  it('two_moments_are_one_picture_with_marks', () => {
    const both = union(graph(['a', 'old']), graph(['a', 'new']));
    expect(both.vertices.map((vertex) => vertex.key)).toEqual(['a', 'new', 'old']);
    const marks = marksOf(decode.differences({
      differences: [
        { key: 'new', before: { state: 'NONEXISTENT' }, after: { state: 'CONFIGURED' } },
        { key: 'old', before: { state: 'CONFIGURED' }, after: { state: 'REMOVED' } },
        { key: 'a', before: { state: 'PENDING' }, after: { state: 'CONFIGURED' } },
      ],
    }));
    expect([...marks]).toEqual([['new', 'added'], ['old', 'removed'], ['a', 'changed']]);
  });

  it('another_state_is_the_same_shape_and_another_bond_is_not', () => {
    const one = sceneOf(graph(['a', 'b'], [['a', 'b']]));
    const other = sceneOf(graph(['a', 'b'], [['a', 'b']]));
    (other.nodes[0] as { state: string }).state = 'FAILED';
    expect(sameShape(one, other)).toBe(true);
    expect(sameShape(one, sceneOf(graph(['a', 'b'])))).toBe(false);
  });
});

const shape = (keys: string[], edges: [string, string][]) => shapeOf(sceneOf(graph(keys, edges)), 1.6).shape;
const many = (count: number) => {
  const keys = Array.from({ length: count }, (_, index) => `k/${index}`);
  return shape(keys, keys.slice(1).map((key, index): [string, string] => [key, `k/${Math.floor(index / 3)}`]));
};

describe('the layout', () => {
  it('what_is_needed_stands_left_of_what_needs_it', () => {
    const placed = layout(shape(['a', 'b', 'c'], [['a', 'b'], ['b', 'c']]));
    expect(placed.mode).toBe('layered');
    expect(placed.x[2]).toBeLessThan(placed.x[1] as number);
    expect(placed.x[1]).toBeLessThan(placed.x[0] as number);
  });

  it('a_bond_goes_from_the_right_side_to_the_left_side', () => {
    const placed = layout(shape(['a', 'b'], [['a', 'b']]));
    const route = [...placed.points.subarray(placed.starts[0], placed.starts[1])];
    expect(route.slice(0, 2)).toEqual([(placed.x[1] as number) + placed.width / 2, placed.y[1]]);
    expect(route.slice(-2)).toEqual([(placed.x[0] as number) - placed.width / 2, placed.y[0]]);
  });

  it('of_two_that_need_each_other_each_bond_leaves_towards_the_other', () => {
    const placed = layout(shape(['a', 'b'], [['a', 'b'], ['b', 'a']]));
    const [x, half] = [[...placed.x], placed.width / 2];
    for (const [bond, from, to] of [[0, 0, 1], [1, 1, 0]] as const) {
      const route = placed.points.subarray(placed.starts[bond], placed.starts[bond + 1]);
      const way = Math.sign((x[from] as number) - (x[to] as number));
      expect([route[0], route.at(-2)]).toEqual([(x[to] as number) + way * half, (x[from] as number) - way * half]);
    }
  });

  it('an_implied_bond_has_no_say_in_the_layout_and_a_line_over_the_others', () => {
    const edges: [string, string][] = [['link', 'netns'], ['route', 'link']];
    const [plain, more] = [layout(shape(['link', 'netns', 'route'], edges)), layout(shape(['link', 'netns', 'route'], [...edges, ['route', 'netns']]))];
    expect([...more.x, ...more.y]).toEqual([...plain.x, ...plain.y]);
    const line = more.points.subarray(more.starts[2], more.starts[3]);
    expect(line[3]).toBeLessThan(Math.min(more.y[1] as number, more.y[2] as number));
  });

  it('cards_are_as_wide_as_their_names_within_bounds', () => {
    const width = (name: string): number => layout(shape([name, `${name}2`], [])).width;
    expect(width('k/a')).toBeLessThan(width('k/left/eth0/fd00:1::2'));
    expect(width(`k/${'a'.repeat(200)}`)).toBeLessThan(300);
  });

  it('no_two_vertices_overlap', () => {
    for (const placed of [layout(many(120)), layout(shape(Array.from({ length: 40 }, (_, index) => `k${index}`), [['k1', 'k2'], ['k2', 'k1'], ['k3', 'k3']])), layout(many(LAYERED + 200))]) {
      const seen = new Map<string, number>();
      for (let one = 0; one < placed.x.length; one += 1) {
        for (let other = one + 1; other < placed.x.length; other += 1) {
          const apart = Math.abs((placed.x[one] as number) - (placed.x[other] as number)) >= placed.width - 0.5 || Math.abs((placed.y[one] as number) - (placed.y[other] as number)) >= placed.height - 0.5;
          if (!apart) seen.set(`${one} ${other}`, 1);
        }
      }
      expect([...seen.keys()]).toEqual([]);
    }
  });

  it('the_same_graph_gives_the_same_picture', () => {
    expect(layout(many(80))).toEqual(layout(many(80)));
  });

  it('more_than_a_thousand_are_packed_by_kind_and_stay_inside_their_block', () => {
    const placed = layout(many(10_000));
    expect(placed.mode).toBe('packed');
    expect(placed.blocks).toHaveLength(1);
    const block = placed.blocks[0] as (typeof placed.blocks)[0];
    expect(block.count).toBe(10_000);
    expect(placed.x.every((x) => x > block.x && x < block.x + block.width)).toBe(true);
    expect(placed.y.every((y) => y > block.y && y < block.y + block.height)).toBe(true);
  });

  it('an_empty_graph_has_a_layout', () => {
    expect(layout(shape([], [])).x).toHaveLength(0);
  });
});

describe('the camera', () => {
  const camera = { x: 10, y: 20, scale: 0.5 };

  it('zooming_keeps_the_point_under_the_pointer', () => {
    const before = toWorld(camera, 100, 50);
    expect(toWorld(zoomed(camera, 2, 100, 50), 100, 50)).toEqual(before);
    expect(zoomed(camera, 1e9, 0, 0).scale).toBe(SCALES.most);
    expect(zoomed(camera, 1e-9, 0, 0).scale).toBe(SCALES.least);
  });

  it('panning_moves_by_points_of_the_screen', () => {
    const [x, y] = toScreen(camera, 30, 40);
    expect(toScreen(panned(camera, 7, -3), 30, 40)).toEqual([x + 7, y - 3]);
  });

  it('everything_fits_beside_what_lies_over_it', () => {
    const box = { x: -50, y: 0, width: 4000, height: 900 };
    const air = { top: 70, right: 10, bottom: 120, left: 30 };
    const size = { width: 1200, height: 800 };
    const fit = fitted(box, size, air);
    const [left, top] = toScreen(fit, box.x, box.y);
    const [right, bottom] = toScreen(fit, box.x + box.width, box.y + box.height);
    expect(left).toBeGreaterThanOrEqual(air.left - 0.01);
    expect(top).toBeGreaterThanOrEqual(air.top - 0.01);
    expect(right).toBeLessThanOrEqual(size.width - air.right + 0.01);
    expect(bottom).toBeLessThanOrEqual(size.height - air.bottom + 0.01);
  });

  it('what_is_looked_for_comes_into_the_middle', () => {
    expect(toScreen(centred(camera, 99, 77, { width: 300, height: 200 }, 0.8), 99, 77).map(Math.round)).toEqual([150, 100]);
  });

  it('arrows_lead_to_the_nearest_vertex_in_their_direction', () => {
    const [x, y] = [new Float32Array([0, 100, 100, -50]), new Float32Array([0, 10, 90, 0])];
    expect(towards(x, y, 0, 1, 0)).toBe(1);
    expect(towards(x, y, 0, -1, 0)).toBe(3);
    expect(towards(x, y, 3, -1, 0)).toBe(-1);
  });
});

describe('names on cards', () => {
  it('keep_their_beginning_and_their_end', () => {
    expect(shortened('left/eth0/fd00:1::2/64', 12)).toBe('left/…1::2/64');
    expect(shortened('short', 12)).toBe('short');
  });
});

describe('what is kept aside', () => {
  const size = { width: 800, height: 600 };
  const camera = { x: 100, y: 50, scale: 0.5 };
  const of = {};
  const kept: Kept = { of, revision: 1, ratio: 1, ...around(camera, size) };
  const near = (dx: number, scale = 0.5) => ({ ...camera, x: camera.x + dx, scale });

  it('serves_for_every_view_inside_it', () => {
    expect(serves(kept, of, 1, near(100), size, 1, false)).toBe(true);
    expect(serves(kept, of, 1, near(10_000), size, 1, false)).toBe(false);
    expect(serves(undefined, of, 1, camera, size, 1, false)).toBe(false);
  });

  it('another_scale_serves_only_while_somebody_moves', () => {
    expect(serves(kept, of, 1, near(0, 0.4), size, 1, true)).toBe(true);
    expect(serves(kept, of, 1, near(0, 0.4), size, 1, false)).toBe(false);
    expect(serves(kept, of, 1, near(0, 0.1), size, 1, true)).toBe(false);
  });

  it('another_layout_theme_or_state_is_drawn_anew', () => {
    expect(serves(kept, {}, 1, camera, size, 1, false)).toBe(false);
    expect(serves(kept, of, 2, camera, size, 1, false)).toBe(false);
    expect(serves(kept, of, 1, camera, size, 2, false)).toBe(false);
  });
});
