// A way to the agent that can be cut: a relay of bytes on a port of its own.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { Transform } from 'node:stream';

export interface Way {
  url: string;
  /** Ends every connection, and lets nobody through. */
  cut: () => void;
  /** Lets everybody through again. */
  mend: () => void;
  /** Lets no event of this name be understood: it gets another one of the same length. */
  garble: (event: string) => void;
  stop: () => Promise<void>;
}

/** Opens a way to an address. */
export async function relay(to: string): Promise<Way> {
  const { hostname, port } = new URL(to);
  const open = new Set<Socket>();
  let whole = true;
  let garbled = '';
  const server = createServer((near) => {
    if (!whole) {
      near.destroy();
      return;
    }
    const far = connect(Number(port), hostname);
    for (const [end, other] of [[near, far], [far, near]] as const) {
      open.add(end);
      end.on('error', () => other.destroy());
      end.on('close', () => { open.delete(end); other.destroy(); });
    }
    near.pipe(far);
    far.pipe(new Transform({
      transform: (bytes: Buffer, _, done) => {
        const text = bytes.toString('latin1');
        done(null, garbled ? Buffer.from(text.replaceAll(`event: ${garbled}\n`, `event: ${'x'.repeat(garbled.length)}\n`), 'latin1') : bytes);
      },
    })).pipe(near);
  });
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const end = (): void => { for (const each of open) each.destroy(); };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut: () => { whole = false; end(); },
    mend: () => { whole = true; },
    garble: (event) => { garbled = event; },
    stop: () => new Promise((resolve) => { server.close(() => resolve()); end(); }),
  };
}
