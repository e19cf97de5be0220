// The tests in a real browser. One after another: they share one agent, as people do. Those of the page of flows need the
// program, and a cluster under it.
import { defineConfig } from 'vitest/config';
import { PATIENCE, WHOLE } from './patience.ts';

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    exclude: process.env['KILTER_PROGRAM'] ? [] : ['tests/flows.test.ts'],
    environment: 'node',
    fileParallelism: false,
    sequence: { concurrent: false },
    testTimeout: WHOLE,
    hookTimeout: WHOLE,
    expect: { poll: { timeout: PATIENCE, interval: 50 } },
  },
});
