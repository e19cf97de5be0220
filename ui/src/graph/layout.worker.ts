// The worker that lays out, so that the page never waits for it.
import { layout, type Shape } from './layout';

self.onmessage = (message: MessageEvent<{ turn: number; shape: Shape }>): void => {
  const { turn, shape } = message.data;
  const placed = layout(shape);
  self.postMessage({ turn, placed }, { transfer: [placed.x.buffer, placed.y.buffer, placed.points.buffer, placed.starts.buffer] });
};
