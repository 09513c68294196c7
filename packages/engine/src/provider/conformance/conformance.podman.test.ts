import { kitOn } from '../testing/docker-kit.ts'

kitOn('podman', 'Podman')
