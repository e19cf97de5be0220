// What part of the picture is seen. Decided here: the bounds of the scale and how a gesture moves the view. Pure.

export interface Camera { x: number; y: number; scale: number }
export interface Size { width: number; height: number }
export interface Box { x: number; y: number; width: number; height: number }

export const SCALES = { least: 0.02, most: 3 };

const bounded = (scale: number): number => Math.min(SCALES.most, Math.max(SCALES.least, scale));

export const toScreen = (camera: Camera, x: number, y: number): [number, number] => [
  (x - camera.x) * camera.scale,
  (y - camera.y) * camera.scale,
];

export const toWorld = (camera: Camera, x: number, y: number): [number, number] => [
  x / camera.scale + camera.x,
  y / camera.scale + camera.y,
];

/** Moves by so many points of the screen. */
export const panned = (camera: Camera, dx: number, dy: number): Camera => ({
  ...camera,
  x: camera.x - dx / camera.scale,
  y: camera.y - dy / camera.scale,
});

/** Zooms so that the point of the screen stays where it is. */
export function zoomed(camera: Camera, factor: number, x: number, y: number): Camera {
  const scale = bounded(camera.scale * factor);
  const [worldX, worldY] = toWorld(camera, x, y);
  return { x: worldX - x / scale, y: worldY - y / scale, scale };
}

/** The parts of the screen at its edges over which something else lies. */
export interface Air { top: number; right: number; bottom: number; left: number }

/** Shows all of a box, with air around it, and no larger than it is drawn. */
export function fitted(box: Box, size: Size, air: Air, most = 1.1): Camera {
  const room = { width: Math.max(40, size.width - air.left - air.right), height: Math.max(40, size.height - air.top - air.bottom) };
  const scale = bounded(Math.min(most, room.width / Math.max(1, box.width), room.height / Math.max(1, box.height)));
  return {
    x: box.x + box.width / 2 - (air.left + room.width / 2) / scale,
    y: box.y + box.height / 2 - (air.top + room.height / 2) / scale,
    scale,
  };
}

/** Brings a point into the middle; zooms in if it could not be read. */
export function centred(camera: Camera, x: number, y: number, size: Size, least = 0): Camera {
  const scale = Math.max(camera.scale, least);
  return { x: x - size.width / 2 / scale, y: y - size.height / 2 / scale, scale };
}

/** A camera on the way from one to another; the scale moves evenly to the eye. */
export function between(from: Camera, to: Camera, part: number): Camera {
  const scale = from.scale * (to.scale / from.scale) ** part;
  const even = from.scale === to.scale ? part : (1 / from.scale - 1 / scale) / (1 / from.scale - 1 / to.scale);
  return { x: from.x + (to.x - from.x) * even, y: from.y + (to.y - from.y) * even, scale };
}

/** The nearest of the points in a direction, by distance with a penalty for being aside; -1 if there is none. */
export function towards(x: Float32Array, y: Float32Array, from: number, dx: number, dy: number): number {
  let [best, least] = [-1, Number.POSITIVE_INFINITY];
  for (let index = 0; index < x.length; index += 1) {
    const [stepX, stepY] = [(x[index] as number) - (x[from] as number), (y[index] as number) - (y[from] as number)];
    const ahead = stepX * dx + stepY * dy;
    const aside = Math.abs(stepX * dy - stepY * dx);
    if (index === from || ahead < 4 || aside > ahead * 3) continue;
    const cost = ahead + aside * 2;
    if (cost < least) [best, least] = [index, cost];
  }
  return best;
}
