// How the page is built. Decided here: fixed names and relative addresses, so that the same sources give the same
// bytes and the agent may serve them from any path; no inline script or style, so that a strict content policy holds.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const agent = process.env['KILTER_URL'] ?? 'http://127.0.0.1:7480';

export default defineConfig({
  base: './',
  plugins: [svelte()],
  worker: {
    format: 'es',
    rollupOptions: { output: { entryFileNames: 'assets/layout.js' } },
  },
  build: {
    target: 'es2022',
    outDir: 'dist',
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: {
      // The page of the agent, and that of flows.
      input: { page: 'index.html', flows: 'flows.html' },
      output: {
        entryFileNames: 'assets/[name].js',
        chunkFileNames: 'assets/shared.js',
        assetFileNames: 'assets/page[extname]',
      },
    },
  },
  server: { port: 5173, proxy: { '/api': { target: agent, changeOrigin: true } } },
  test: { include: ['src/**/*.test.ts'], environment: 'node', testTimeout: 60_000 },
});
