// A picture kept aside, so that moving over ten thousand tiles costs one copy. Decided here: when what is kept still
// serves. While somebody moves, a picture of nearly the right scale does; when they stop, it is drawn anew.
import type { Camera, Size } from './camera';

/** How much more than the screen is kept, on each side, as a part of it. */
const MARGIN = 0.3;
/** How far the scale may be off while somebody moves. */
const STRETCH = 2.2;

export interface Kept { of: object; revision: number; camera: Camera; size: Size; ratio: number }

/** The part of the world that is to be kept for a view. */
export function around(camera: Camera, size: Size): { camera: Camera; size: Size } {
  // Whole points, so that what is copied back lies on the points of the screen.
  const [dx, dy] = [Math.round(size.width * MARGIN), Math.round(size.height * MARGIN)];
  return {
    camera: { ...camera, x: camera.x - dx / camera.scale, y: camera.y - dy / camera.scale },
    size: { width: size.width + 2 * dx, height: size.height + 2 * dy },
  };
}

/** Whether what is kept serves for a view: exactly, or well enough while somebody moves. */
export function serves(kept: Kept | undefined, of: object, revision: number, camera: Camera, size: Size, ratio: number, moving: boolean): boolean {
  if (!kept || kept.of !== of || kept.ratio !== ratio) return false;
  const off = camera.scale / kept.camera.scale;
  if (moving && kept.revision !== revision) return off < STRETCH && off > 1 / STRETCH && covers(kept, camera, size);
  if (kept.revision !== revision) return false;
  if (off === 1) return covers(kept, camera, size);
  return moving && off < STRETCH && off > 1 / STRETCH && (off < 1 || covers(kept, camera, size));
}

/** Whether the view lies inside what is kept. */
function covers(kept: Kept, camera: Camera, size: Size): boolean {
  const [width, height] = [size.width / camera.scale, size.height / camera.scale];
  const [keptWidth, keptHeight] = [kept.size.width / kept.camera.scale, kept.size.height / kept.camera.scale];
  // A hair is allowed for rounding.
  const hair = 0.5 / camera.scale;
  return (
    camera.x >= kept.camera.x - hair && camera.y >= kept.camera.y - hair &&
    camera.x + width <= kept.camera.x + keptWidth + hair && camera.y + height <= kept.camera.y + keptHeight + hair
  );
}
