// The first file of the page of flows: puts it on the screen.
import { mount } from 'svelte';
import { page } from '../state/page.svelte';
import '../styles/page.css';
import { board } from './board.svelte';
import FlowsApp from './FlowsApp.svelte';
import { place } from './place.svelte';

page.start();
place.start();
board.start();
const target = document.getElementById('page');
if (!target) throw new Error('the document has no element `page`');
mount(FlowsApp, { target });
