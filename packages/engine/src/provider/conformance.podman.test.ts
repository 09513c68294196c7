import { kitOn } from './docker-kit.ts'

kitOn('podman', 'Podman')
